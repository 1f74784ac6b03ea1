"""pyiceberg's REST catalog with timeouts and retries; without these it waits for ever."""

from __future__ import annotations

from typing import Any, Final

from pyiceberg.catalog.rest import RestCatalog
from requests import PreparedRequest, Response, Session
from requests.adapters import HTTPAdapter
from urllib3.util import Retry

CONNECT_SECONDS: Final = 10
READ_SECONDS: Final = 60
# A request that changes something is sent again only if it never reached the server.
_AGAIN: Final = Retry(
    total=5,
    backoff_factor=0.5,
    status_forcelist=(429, 502, 503, 504),
    allowed_methods=("GET", "HEAD"),
    raise_on_status=False,
    respect_retry_after_header=False,
)


class RetryingRestCatalog(RestCatalog):
    """Retries where that is safe, see `_AGAIN`, and has timeouts."""

    def _config_headers(self, session: Session) -> None:
        # Called first for a new session, before it fetches a token.
        for scheme in ("https://", "http://"):
            session.mount(scheme, _TimeoutAdapter(max_retries=_AGAIN))
        super()._config_headers(session)


class _TimeoutAdapter(HTTPAdapter):
    def send(self, request: PreparedRequest, *args: Any, **kwargs: Any) -> Response:
        kwargs["timeout"] = kwargs.get("timeout") or (CONNECT_SECONDS, READ_SECONDS)
        return super().send(request, *args, **kwargs)
