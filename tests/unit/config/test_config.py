"""The project's YAML: what is read, and that each mistake is named with its place."""

from __future__ import annotations

from pathlib import Path

import pytest

from sluice.config.partitions import Partition
from sluice.config.pipeline import Pipeline, TableConfig
from sluice.config.project import load_project, load_sound
from sluice.environment import ENV_CATALOG_URI, ENV_SPARK_MASTER
from sluice.errors import ConfigError
from tests.unit.projects import LAKE, SHOP, load, mistake

REST = """\
lake:
  catalog: {type: rest, uri: "https://c", warehouse: prod, properties: {scope: a}}
  warehouse: s3://lake/prod
"""

ROOT = Path(__file__).resolve().parents[3]


def shop(root: Path, more: str = "") -> Pipeline:
    return load(root, shop=SHOP + more).pipeline("shop")


def test_keys_of_a_whole_pipeline_are_read(tmp_path: Path) -> None:
    pipeline = shop(
        tmp_path,
        """\
format_options: {}
table_name: "{table}"
tables:
  public.orders: {key: [id], columns: {amount: "decimal(18,2)"},
                  partition_by: ["days(created_at)"], write_mode: merge-on-read}
schedule: "0 * * * *"
""",
    )
    assert pipeline.tables is not None
    orders = pipeline.tables["public.orders"]
    assert orders.key == ["id"]
    assert orders.columns == {"amount": "decimal(18,2)"}
    assert orders.partitions == (Partition("created_at", "days"),)


def test_defaults(tmp_path: Path) -> None:
    pipeline = shop(tmp_path)
    assert pipeline.schedule == "0 * * * *"
    assert pipeline.table_name == "{table}"
    assert pipeline.tables is None
    assert (pipeline.on_bad_record, pipeline.consistency) == ("quarantine", "batch")


def test_on_open_transaction_hold_needs_ends_of_transactions_and_consistency_batch(
    tmp_path: Path,
) -> None:
    assert not shop(tmp_path).holds_transactions
    assert shop(tmp_path, "on_open_transaction: hold\n").holds_transactions
    text = mistake(tmp_path, shop=SHOP.replace("debezium", "canal") + "on_open_transaction: hold\n")
    assert "canal does not mark the end of transactions (debezium, dts_avro, maxwell" in text
    text = mistake(tmp_path, shop=SHOP + "consistency: table\non_open_transaction: hold\n")
    assert "a transaction is published whole" in text


def test_paths_are_relative_to_the_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "p").mkdir()
    load(tmp_path / "p", shop=SHOP)
    monkeypatch.chdir(tmp_path)
    found = load_project("p")
    root = (tmp_path / "p").resolve()
    assert found.lake.warehouse == str(root / "data/warehouse")
    assert found.lake.catalog.sqlite_path == root / "data/catalog.db"
    assert found.pipeline("shop").landing.url == str(root / "landing")


@pytest.mark.parametrize("scheme", ["s3", "s3a"])
def test_buckets_stay_as_they_are(tmp_path: Path, scheme: str) -> None:
    lake = LAKE.replace("data/warehouse", f"{scheme}://lake/ware/")
    found = load(tmp_path, lake)
    assert found.lake.warehouse == "s3://lake/ware"
    assert found.lake.on_s3


def test_environment_wins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ENV_CATALOG_URI, "postgresql://u:secret@db/catalog")
    monkeypatch.setenv(ENV_SPARK_MASTER, "spark://m:7077")
    found = load(tmp_path)
    assert found.lake.catalog.uri == "postgresql://u:secret@db/catalog"
    assert found.spark.master == "spark://m:7077"


def test_the_environment_gives_a_rest_catalog_another_address_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(ENV_CATALOG_URI, "https://other")
    catalog = load(tmp_path, REST).lake.catalog
    assert (catalog.uri, catalog.warehouse) == ("https://other", "prod")
    assert catalog.properties == {"scope": "a"}


def test_mistake_in_the_environment_does_not_show_its_value(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(ENV_CATALOG_URI, "mysql://u:secret@db/catalog")
    text = mistake(tmp_path)
    assert text == f"{ENV_CATALOG_URI}: expected to begin with sqlite:/// or postgresql://"


def test_words_that_yaml_takes_for_booleans_are_names(tmp_path: Path) -> None:
    pipeline = shop(tmp_path, "tables: {public.off: {key: [no, on, y], columns: {yes: date}}}\n")
    assert pipeline.tables is not None
    assert pipeline.tables["public.off"].key == ["no", "on", "y"]


def test_a_tables_modes_win_over_the_pipelines(tmp_path: Path) -> None:
    pipeline = shop(tmp_path, "tables: {a: {modes: [current]}, b: }\nmodes: [history, current]\n")
    assert pipeline.tables is not None
    modes = {name: pipeline.modes_of(table) for name, table in pipeline.tables.items()}
    assert modes == {"a": ("current",), "b": ("history", "current")}
    assert shop(tmp_path).modes_of(TableConfig()) == ("current",)


def test_empty_key_differs_from_a_missing_one(tmp_path: Path) -> None:
    pipeline = shop(tmp_path, "tables: {a: {key: []}, b: {}, c: }\n")
    assert pipeline.tables is not None
    assert [t.key for t in pipeline.tables.values()] == [[], None, None]


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ("nmae: x\n", "shop.yaml:5: nmae: unknown key; expected one of: "),
        ("nmae: x\n", "(did you mean name?)"),
        ("epoch: ten\n", "shop.yaml:5: epoch: expected integer, got 'ten'"),
        ("epoch: '1'\n", "shop.yaml:5: epoch: expected integer, got '1'"),
        (
            "full_loads: [{epoch: 1, at: 2026-01-31T20:30}]\n",
            "expected a time with its zone such as 2026-01-31T20:30:00Z, got",
        ),
        (
            "full_loads: [{epoch: 1, at: yesterday}]\n",
            "expected a time with its zone such as 2026-01-31T20:30:00Z, got",
        ),
        (
            "full_loads:\n"
            "  - {epoch: 1, at: 2026-01-31T20:30:00Z}\n"
            "  - {epoch: 1, at: 2026-01-31T20:30:00Z}\n",
            "shop.yaml:5: full_loads: expected each epoch once",
        ),
        ("name: again\n", "shop.yaml:5: name: expected each key once; it is on line 1 already"),
        ("schedule: hourly\n", "schedule: expected five cron fields"),
        ("schedule: '99 * * * *'\n", "schedule: expected five cron fields"),
        ("table_name: '{tabel}'\n", "table_name: expected a template over {database}"),
        ("table_name: fixed\n", "that holds {table}"),
        ("max_bad_share: 2\n", "max_bad_share: expected less than or equal to 1, got 2"),
        ("on_truncate: no\n", "on_truncate: expected 'apply', 'ignore' or 'fail', got 'no'"),
        (
            "tables:\n  a:\n    key: id\n",
            "shop.yaml:7: tables.a.key: expected list such as [id], got",
        ),
        ("tables:\n  a:\n    kye: 1\n", "shop.yaml:7: tables.a.kye: unknown key; expected one of"),
        ("tables:\n  a: {key: [b, b]}\n", "tables.a.key: expected each key column once"),
        ("tables: {a: {columns: {b: foo}}}\n", "tables.a.columns.b: expected a column type"),
        (
            "tables: {a: {columns: {b: decimal(10,2), c: int}}}\n",
            "shop.yaml:5: tables.a.columns: expected quotes around a type with a comma, as in "
            '{b: "decimal(10,2)"}, for in braces a comma ends the value, got a mapping of b, 2), c',
        ),
        ("tables: {a: {columns: {b: decimal(10}}}\n", "tables.a.columns.b: expected a column type"),
        (
            "tables: {a: {renamed_columns: {b: c, c: d}}}\n",
            "tables.a.renamed_columns: expected former name → present name, and no present name",
        ),
        ("tables: {a: {renamed_columns: {b: ''}}}\n", "tables.a.renamed_columns: expected former"),
        ("tables: {a: {renamed_columns: {b: d, B: e}}}\n", "renamed_columns: expected former"),
        ("tables: {a: {partition_by: [day(b)]}}\n", "tables.a.partition_by[0]: expected col, "),
        (
            "format_options: {connektor: x}\n",
            "shop.yaml:5: format_options.connektor: unknown key; expected one of: conn",
        ),
        ("modes: [history]\n", "shop.yaml:5: modes: expected each mode once, and either current"),
        ("modes: [current, soft_delete]\n", "modes: expected each mode once, and either current"),
        ("modes: [current, current]\n", "modes: expected each mode once"),
        ("modes: [log]\n", "expected 'current', 'history', 'soft_delete' or 'append', got 'log'"),
        ("modes: [append]\n", "either current or soft_delete among them, got ['append']"),
        (
            "tables: {a: {key: [], modes: [soft_delete, history]}}\n",
            "tables: expected a key for a, or its modes without history, soft_delete",
        ),
        (
            "modes: [current, history]\ntables: {a: {key: []}}\n",
            "shop.yaml:6: tables: expected a key for a, or its modes without history",
        ),
        (
            "tables: {a: {checks: [{name: c, sql: SELECT 1}]}}\n",
            "shop.yaml:5: tables.a.checks[0].sql: expected one SELECT over {table}",
        ),
        (
            "tables: {a: {checks: [{name: c, sql: 'DELETE FROM {table}'}]}}\n",
            "checks[0].sql: expected one SELECT over {table}",
        ),
        (
            "tables: {a: {checks: [{name: c, sql: 'SELECT * FROM {table}; DROP TABLE x'}]}}\n",
            "checks[0].sql: expected one SELECT over {table}",
        ),
        (
            "tables: {a: {checks: [{name: c, sql: 'SELECT ) FROM {table}'}]}}\n",
            "checks[0].sql: expected one SELECT over {table}",
        ),
        (
            "tables: {a: {key: [id], collations: {Id: nocase, v: rtrim}, null_keys: [w]}}\n",
            "shop.yaml:5: tables: expected of a only columns of its key in `collations` and "
            "`null_keys`: v, w",
        ),
        (
            "tables: {a: {key: [id], null_misfits: [v, ID]}}\n",
            "shop.yaml:5: tables: expected of a no column of its key in `null_misfits`: ID",
        ),
        (
            "tables: {a: {null_misfits: [v, V]}}\n",
            "tables.a.null_misfits: expected each column once",
        ),
        ("tables: {a: {max_row_swing: 0}}\n", "tables.a.max_row_swing: expected greater than 0"),
        ("tables: 5\n", "tables: expected a mapping of keys to values, got 5"),
        ("tables: [\n", "shop.yaml:6: expected valid YAML"),
        (
            "tables: {a: {columns: {at: timestamp[us]}}}\n",
            "but got '['; within braces a type with a comma or a bracket needs quotes, as in "
            '{at: "timestamp[us]"}',
        ),
        *(
            (
                text,
                """; a value that begins with * or @, or has a ? within brackets or braces, """
                """needs quotes, as in ["shop_??.orders_*"]""",
            )
            for text in (
                "tables: {a: {sources: [shop_??.payments_??]}}\n",
                "tables: {a: {sources: [*.orders_p]}}\n",
                "tables: {a: {sources: [*orders]}}\n",
                "schedule: */15 * * * *\n",
                "schedule: @hourly\n",
            )
        ),
        (
            "tables: {a: {columns: {at: 'timestamp[sec]'}}}\n",
            "'timestamp[sec]': timestamp takes s, ms, us or ns",
        ),
        (
            "tables: {a: {columns: {id: 'int[ms]'}}}\n",
            "'int[ms]': int takes no encoding",
        ),
        (
            "key: [id]\n",
            "shop.yaml:5: key: unknown key here; its place is tables.<name>.key",
        ),
        (
            "tombstone_days: 3\n",
            "tombstone_days: unknown key here; its place is maintenance.tombstone_days",
        ),
        ("at: 2026-01-01\n", "at: unknown key here; its place is full_loads[0].at"),
        (
            "tables: {'public.orders_*': }\n",
            "shop.yaml:5: tables: expected names of source tables; public.orders_* is a pattern, "
            "and patterns belong under `sources:` of a table",
        ),
        ("tables: {'a[1]': }\n", "patterns belong under `sources:` of a table"),
        (
            "format_options: {schema_registry: 5}\n",
            "shop.yaml:5: format_options.schema_registry: expected string, got 5",
        ),
        (
            'tables: {a: {key: ["\\uD83D\\uDE00"]}}\n',
            "shop.yaml:5: tables.a.key[0]: expected whole characters",
        ),
        ('tables:\n  "\\uDC00": {}\n', "shop.yaml:6: tables.\\udc00: expected whole characters"),
    ],
)
def test_mistakes_are_named(tmp_path: Path, more: str, expected: str) -> None:
    assert expected in mistake(tmp_path, shop=SHOP + more)


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("format: debezium\n", "", "shop.yaml:1: format: expected a value; the key is missing"),
        ("debezium", "debesium", "format: expected one of debezium, datastream, streamx"),
        ("name: shop", "name: Shop 1", "name: expected only characters of ^[a-z0-9_-]+$"),
        ("name: shop", "name: rollback", "name: expected another name than maintain, reconcile"),
        ("namespace: shop", "namespace: sluice", "namespace: expected a name other than 'sluice'"),
        ("namespace: shop", "namespace: Sluice", "namespace: expected a name other than 'sluice'"),
        ("namespace: shop", "namespace: _sluice", "underscores, beginning with a letter"),
        ("namespace: shop", "namespace: _a", "underscores, beginning with a letter"),
        ("namespace: shop", "namespace: a__cdc", "that does not end with __cdc"),
        ("namespace: shop", "namespace: a.b", "namespace: expected letters, digits"),
        ("url: landing", "url: gs://bucket", "landing.url: expected a folder or s3://"),
        ("url: landing", "url: s3:/bucket/x", "landing.url: expected a folder or s3://"),
        ("{url: ", "{pattern: ../*, url: ", "landing.pattern: expected a glob below landing.url"),
    ],
)
def test_wrong_values_are_named(tmp_path: Path, old: str, new: str, expected: str) -> None:
    assert expected in mistake(tmp_path, shop=SHOP.replace(old, new))


def test_all_mistakes_at_once_in_order(tmp_path: Path) -> None:
    text = mistake(tmp_path, a="name: 1\nformat: x\n", b=SHOP + "epoch: x\n")
    places = [line.split(" ")[0] for line in text.splitlines()]
    assert places == [
        "pipelines/a.yaml:1:", "pipelines/a.yaml:1:", "pipelines/a.yaml:1:",
        "pipelines/a.yaml:2:", "pipelines/b.yaml:5:",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("lake", "expected"),
    [
        ("", "sluice.yaml:1: expected a mapping"),
        ("lake: {}\n", "sluice.yaml:1: lake.catalog: expected a value"),
        (LAKE.replace("jdbc", "hive"), "lake.catalog.type: expected 'jdbc' or 'rest', got 'hive'"),
        (LAKE.replace("sqlite:///", "oracle:"), "lake.catalog: expected a jdbc catalog's uri"),
        (LAKE + "lakes: 1\n", "sluice.yaml:4: lakes: unknown key; expected one of: lake, spark"),
        (
            LAKE.replace("sqlite:///data/catalog.db", "postgresql://u:secret@db/c"),
            f"lake.catalog.uri: expected no password in the file; give the whole address in "
            f"{ENV_CATALOG_URI}",
        ),
        (
            LAKE.replace('"}', '", warehouse: prod}'),
            "lake.catalog: expected warehouse and properties with a rest catalog alone",
        ),
        (
            REST.replace("scope: a", "scope: a, IO-impl: b, s3.endpoint: c"),
            "expected none of those that Sluice sets, without IO-impl, s3.endpoint; a store's",
        ),
        (
            LAKE.replace("sqlite:///data/catalog.db", "postgresql://db/c?user=u&Password=secret"),
            "lake.catalog.uri: expected no password in the file",
        ),
    ],
)
def test_mistakes_in_the_project_file(tmp_path: Path, lake: str, expected: str) -> None:
    text = mistake(tmp_path, lake)
    assert expected in text
    assert "secret" not in text


def test_no_project(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"expected a project folder with a sluice\.yaml"):
        load_project(tmp_path)


def test_unknown_pipeline_lists_the_known(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="there are: shop"):
        load(tmp_path, shop=SHOP).pipeline("shpo")


def test_one_pipelines_mistake_leaves_the_others_sound(tmp_path: Path) -> None:
    wrong = SHOP.replace("format: debezium", "format: debezum")
    with pytest.raises(ConfigError, match=r"wrong\.yaml"):
        load(tmp_path, shop=SHOP, wrong=wrong, torn="name: [", tagged="epoch: !!int one")
    found = load_sound(tmp_path)
    assert sorted(found.pipelines) == ["shop"]
    assert sorted(found.broken) == ["tagged", "torn", "wrong"]
    assert "wrong.yaml" in found.broken["wrong"]
    with pytest.raises(ConfigError, match=r"wrong\.yaml"):
        found.pipeline("wrong")


def test_a_pipeline_that_is_wrong_is_known_by_its_own_name(tmp_path: Path) -> None:
    """Not by its file's; and what editors leave beside files is none."""
    wrong = SHOP.replace("format: debezium", "format: debezum")
    with pytest.raises(ConfigError, match=r"shop-prod\.yaml"):
        load(tmp_path, **{"shop-prod": wrong, ".#shop": "name: ["})
    found = load_sound(tmp_path)
    assert list(found.broken) == ["shop"]
    with pytest.raises(ConfigError, match=r"shop-prod\.yaml"):
        found.pipeline("shop")


def test_limits_of_bad_records(tmp_path: Path) -> None:
    pipeline = shop(tmp_path, "max_bad_records: 50\nmax_bad_share: 0.1\n")
    assert not any(pipeline.too_many_bad(bad=bad, read=read) for bad, read in ((9, 9), (10, 100)))
    assert pipeline.too_many_bad(bad=11, read=100)
    assert not pipeline.too_many_bad(bad=50, read=10_000)
    assert pipeline.too_many_bad(bad=51, read=10_000)


def test_on_bad_record_fail_allows_no_bad_record(tmp_path: Path) -> None:
    pipeline = shop(tmp_path, "on_bad_record: fail\n")
    assert pipeline.too_many_bad(bad=1, read=10_000)
    assert not pipeline.too_many_bad(bad=0, read=1)


def test_the_checkouts_own_projects_are_valid(monkeypatch: pytest.MonkeyPatch) -> None:
    assert load_project(ROOT / "include").pipelines
    monkeypatch.setenv(ENV_CATALOG_URI, "postgresql://u:p@postgres/catalog")
    assert load_project(ROOT / "docker/project").pipelines
