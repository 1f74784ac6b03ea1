"""How long properties of the promise are tried: one example, or as many as `make prove` asks."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, Phase, settings

PROVE = int(os.environ.get("SLUICE_PROVE", "0"))

proved = settings(
    max_examples=max(PROVE, 1),
    database=None,
    phases=[Phase.explicit, Phase.generate, Phase.shrink] if PROVE else [Phase.explicit],
    suppress_health_check=list(HealthCheck),
)
