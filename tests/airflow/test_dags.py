"""The DAGs as Airflow parses them, with a check for each known trap."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from sluice.config.project import load_sound
from sluice.errors import ConfigError
from sluice.manifest import BATCH_ID_PATTERN
from sluice_airflow import tasks

pytestmark = pytest.mark.airflow


@pytest.fixture
def shop(dags: dict[str, Any]) -> Any:
    return dags["sluice_shop"]


def test_there_is_a_dag_a_pipeline_and_the_operations(dags: dict[str, Any]) -> None:
    assert sorted(dags) == [
        "sluice_maintain", "sluice_reconcile", "sluice_reprocess", "sluice_rollback", "sluice_shop",
    ]  # fmt: skip


def test_a_broken_pipeline_stops_no_other(
    parsed: Callable[[], dict[str, Any]], project: Path
) -> None:
    """Beside its own DAG, whose runs go on, stands one that says what is wrong, red each hour."""
    from airflow.sdk import CronDataIntervalTimetable

    broken = project / "pipelines" / "broken.yaml"
    broken.write_text("name: broken\nformat: debezum\n")
    torn = project / "pipelines" / "half edited (1).yaml"
    torn.write_text("name: [")
    try:
        found = parsed()
    finally:
        broken.unlink()
        torn.unlink()
    odd = next(name for name in found if name.startswith("sluice_half_edited__1_."))
    assert isinstance(found[odd].timetable, CronDataIntervalTimetable)
    assert found["sluice_shop"].get_task("land")
    assert "sluice_broken" not in found
    stand_in = found["sluice_broken.broken"]
    assert stand_in.is_paused_upon_creation is False
    assert stand_in.timetable == found["sluice_shop"].timetable
    assert stand_in.catchup is False
    assert stand_in.max_active_runs == 1
    assert "broken.yaml" in (stand_in.doc_md or "")
    assert "broken.yaml" in (stand_in.description or "")
    with pytest.raises(ConfigError, match=r"broken\.yaml"):
        stand_in.get_task("configuration").python_callable()


def test_a_wrong_ddl_script_fails_the_first_task(
    parsed: Callable[[], dict[str, Any]], project: Path, second: Callable[..., None]
) -> None:
    """The DAG's file does not read it: all pipelines' dumps take longer than Airflow gives it."""
    (project / "torn.sql").write_text("CREATE TABLE t (a int;")
    second(name="second", namespace="second", ddl={"dialect": "mysql", "files": ["torn.sql"]})
    assert [task.task_id for task in parsed()["sluice_second"].roots] == ["reconcile"]
    with pytest.raises(ConfigError, match=r"torn\.sql: expected a script in mysql: line 1"):
        tasks.reconcile(str(project), "second")


def test_pipeline_that_airflow_refuses_has_a_dag_with_the_error(
    dags: dict[str, Any], project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from sluice_airflow import pipeline_dags

    def refuse(*_: Any) -> None:
        raise ValueError("a tag too many")

    sound = load_sound(project)
    monkeypatch.setattr(pipeline_dags, "pipeline_dag", refuse)
    made = pipeline_dags.project_dags(sound)
    assert "Airflow takes no DAG of it: a tag too many" in (made["sluice_shop.broken"].doc_md or "")
    assert sound.broken == {}
    assert pipeline_dags.project_dags(sound, "sluice_other") == {}


def test_a_broken_pipeline_takes_no_sound_dags_place(
    parsed: Callable[[], dict[str, Any]], project: Path
) -> None:
    """Neither by a name that no pipeline may have, nor by its file's where that is taken."""
    folder = project / "pipelines"
    wrong = {
        "a.yaml": "name: s hop\n", "b.yaml": "name: maintain\n", "c.yaml": "name: s.hop\n",
        "d.yaml": "name: shop\n", "s_hop.yaml": "name: shop\n",
    }  # fmt: skip
    shop = yaml.safe_load((folder / "shop.yaml").read_text())
    sound = {"t.yaml": yaml.safe_dump(shop | {"name": "s_hop", "namespace": "t"})}
    for name, text in (wrong | sound).items():
        (folder / name).write_text(text)
    try:
        found = parsed()
    finally:
        for name in wrong | sound:
            (folder / name).unlink()
    broken = {name for name, dag in found.items() if "broken" in dag.tags}
    assert len(broken) == len(wrong)
    assert not broken & {"sluice_shop", "sluice_s_hop", "sluice_maintain"}
    assert found["sluice_maintain"].has_task("maintain")
    assert found["sluice_s_hop"].has_task("land")


@pytest.fixture
def second(project: Path) -> Iterator[Callable[..., None]]:
    """Write a second pipeline's file, the shop's with other values."""
    path = project / "pipelines" / "second.yaml"

    def write(**values: Any) -> None:
        shop = yaml.safe_load((project / "pipelines" / "shop.yaml").read_text())
        path.write_text(yaml.safe_dump(shop | values))

    yield write
    path.unlink()


@pytest.mark.parametrize("length", [200, 201])
def test_the_longest_names_are_dags(
    parsed: Callable[[], dict[str, Any]], second: Callable[..., None], length: int
) -> None:
    """Above Airflow's limits for ids and tags no DAG of the file was there any more."""
    name = "p" * length
    second(name=name, namespace="n" * length)
    found = parsed()
    assert found["sluice_shop"].get_task("land")
    of_it = [dag for dag in found.values() if name[:200] in dag.dag_id]
    assert [dag.has_task("land") for dag in of_it] == [length == 200]


def test_pipeline_that_airflow_refuses_keeps_the_other_dags(
    parsed: Callable[[], dict[str, Any]],
    second: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from sluice_airflow import pipeline_dags

    wire = pipeline_dags._wire

    def refused(project: Any, pipeline: Any) -> None:
        wire(project, pipeline)
        if pipeline.name == "second":
            raise ValueError("no such thing")

    monkeypatch.setattr(pipeline_dags, "_wire", refused)
    second(name="second", namespace="second")
    found = parsed()
    assert found["sluice_shop"].get_task("land")
    assert "sluice_second" not in found
    shown = found["sluice_second.broken"].doc_md or ""
    assert "second.yaml" in shown
    assert "no such thing" in shown


def test_every_run_has_an_interval_of_its_own(shop: Any) -> None:
    from airflow.sdk import CronDataIntervalTimetable

    assert isinstance(shop.timetable, CronDataIntervalTimetable)
    assert shop.catchup is False


def test_no_dag_has_a_timeout_that_would_skip_its_teardown(dags: dict[str, Any]) -> None:
    assert [dag.dag_id for dag in dags.values() if dag.dagrun_timeout is not None] == []


def test_every_dag_has_an_owner_tags_and_a_description(dags: dict[str, Any]) -> None:
    assert dags
    for dag in dags.values():
        assert dag.owner == "sluice"
        assert "sluice" in dag.tags
        assert dag.description
        assert dag.doc_md


def test_every_field_of_a_form_has_a_title(dags: dict[str, Any]) -> None:
    assert all(dag.params for dag in dags.values())
    for dag in dags.values():
        for name in dag.params:
            field = dag.params.get_param(name)
            assert field.schema.get("title"), f"{dag.dag_id}: {name}"
            # Airflow shows `description` as it is, backticks included.
            assert field.schema.get("description_md"), f"{dag.dag_id}: {name}"
            assert field.description is None


def test_only_what_has_no_default_is_marked_as_required(dags: dict[str, Any]) -> None:
    """Airflow's page marks every field whose type does not include null, checkboxes too."""
    marked = {
        name
        for dag in dags.values()
        for name in dag.params
        if "null" not in dag.params.get_param(name).schema["type"]
    }
    assert marked == {"pipeline", "budget"}


def test_only_what_has_a_schedule_waits_to_be_switched_on(dags: dict[str, Any]) -> None:
    """A run of a paused DAG waits in silence, and begins whenever somebody switches it on."""
    at_once = {name for name, dag in dags.items() if dag.is_paused_upon_creation is False}
    assert at_once == {"sluice_rollback", "sluice_reprocess", "sluice_reconcile"}


def test_nor_does_a_pipeline_that_is_only_started_by_hand(project: Path) -> None:
    from sluice_airflow.pipeline_dags import pipeline_dag

    configured = load_sound(project)
    by_hand = configured.pipeline("shop").model_copy(update={"schedule": None})
    assert pipeline_dag(configured, by_hand).is_paused_upon_creation is False


def test_the_form_of_a_dry_run_says_what_else_a_paused_dag_would_do(dags: dict[str, Any]) -> None:
    """Airflow's form switches a paused DAG on, unless one takes out its tick."""
    about = dags["sluice_shop"].params.get_param("dry_run").schema["description_md"]
    assert "paused" in about
    assert "Unpause" in about


def test_the_window_of_a_form_says_which_clock(dags: dict[str, Any]) -> None:
    for name in ("window_start", "window_end"):
        assert "UTC" in dags["sluice_shop"].params.get_param(name).schema["description_md"]


def test_the_pipelines_to_maintain_are_chosen_from_a_list(dags: dict[str, Any]) -> None:
    """Without `examples` Airflow's page has a box for text."""
    schema = dags["sluice_maintain"].params.get_param("pipelines").schema
    assert schema["examples"] == schema["items"]["enum"] == ["shop"]
    assert schema["description_md"].startswith("Empty: all pipelines")


def test_the_tasks_are_the_stages_in_order(shop: Any) -> None:
    order = [task.task_id for task in shop.topological_sort()]
    assert order[:2] == ["reconcile", "land"]
    assert [task for task in order[2:] if task != "denied"] == [
        "batch.load", "batch.publish", "batch.rollback",
    ]  # fmt: skip


def test_task_for_denied_files_stands_beside_the_batches(shop: Any) -> None:
    """Behind them it would decide the run's colour, and they would not any more."""
    denied = shop.get_task("denied")
    assert denied.upstream_task_ids == {"land"}
    assert denied.downstream_task_ids == set()


def test_a_reprocess_goes_through_the_same_tasks(dags: dict[str, Any]) -> None:
    order = [task.task_id for task in dags["sluice_reprocess"].topological_sort()]
    assert order == ["land", "batch.load", "batch.publish", "batch.rollback"]


def test_tables_that_were_left_out_fail_a_task_of_their_own(
    parsed: Callable[[], dict[str, Any]], project: Path
) -> None:
    """After publish, which would lose its assets' events by failing; the teardown comes last."""
    file = project / "pipelines" / "apart.yaml"
    shop = yaml.safe_load((project / "pipelines" / "shop.yaml").read_text())
    file.write_text(
        yaml.safe_dump(shop | {"name": "apart", "namespace": "apart", "consistency": "table"})
    )
    try:
        found = parsed()
    finally:
        file.unlink()
    last = found["sluice_apart"].get_task("batch.left_out")
    assert last.upstream_task_ids == {"batch.publish", "land"}  # the latter maps it
    assert last.downstream_task_ids == {"batch.rollback"}
    assert not found["sluice_shop"].has_task("batch.left_out")


def test_the_teardown_decides_no_runs_state(shop: Any) -> None:
    rollback = shop.get_task("batch.rollback")
    assert rollback.is_teardown
    assert rollback.on_failure_fail_dagrun is False
    assert [t.task_id for t in shop.tasks if t.is_teardown] == ["batch.rollback"]


def test_the_load_is_a_spark_submit_that_a_clear_runs_again(shop: Any) -> None:
    from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator

    load = shop.get_task("batch.load")
    assert isinstance(load, SparkSubmitOperator)
    assert load.durable is False
    assert load._conn_id == "spark_default"
    assert load.application.endswith("spark_jobs/load_batch.py")


def test_a_load_that_waits_for_the_lease_never_keeps_a_publish_from_a_slot(shop: Any) -> None:
    load, publish = shop.get_task("batch.load"), shop.get_task("batch.publish")
    assert load.max_active_tis_per_dag == 1
    assert publish.weight_rule == load.weight_rule
    assert publish.priority_weight > load.priority_weight


def test_retries_are_stated_and_bounded_in_time(shop: Any) -> None:
    assert shop.tasks
    for task in shop.tasks:
        assert task.retries == (0 if task.task_id == "denied" else 2)  # which only tells
        assert task.retry_policy is not None
        assert timedelta(0) < task.execution_timeout <= timedelta(hours=6)


@pytest.mark.parametrize(("seconds", "longest"), [(90, 21_600), (36_000, 36_000)])
def test_a_load_takes_as_long_as_the_project_allows(
    parsed: Callable[[], dict[str, Any]], project: Path, seconds: int, longest: int
) -> None:
    """What copies files, or may load a batch again on its way, has six hours at least."""
    top = project / "sluice.yaml"
    before = top.read_text()
    top.write_text(before.replace("spark: {", f"spark: {{max_load_seconds: {seconds}, "))
    try:
        dags = parsed()
    finally:
        top.write_text(before)
    shop, maintain = dags["sluice_shop"], dags["sluice_maintain"].get_task("maintain")
    loads = (shop.get_task("batch.load"), maintain)
    assert {task.execution_timeout for task in loads} == {timedelta(seconds=seconds)}
    names = ("reconcile", "land", "batch.publish", "batch.rollback")
    stages = [shop.get_task(name) for name in names]
    stages += [dags[f"sluice_{name}"].get_task(name) for name in ("rollback", "reconcile")]
    assert {task.execution_timeout for task in stages} == {timedelta(seconds=longest)}


@pytest.mark.parametrize(
    ("error", "action"),
    [
        ("sluice.errors.ConfigError", "fail"),
        ("sluice.errors.LeaseHeldError", "retry"),
        ("sluice.errors.AuditFailedError", "fail"),
        ("airflow.sdk.exceptions.AirflowTaskTimeout", "fail"),
    ],
)
def test_the_kind_of_an_error_decides_on_a_retry(shop: Any, error: str, action: str) -> None:
    from pkgutil import resolve_name

    policy = shop.get_task("land").retry_policy
    assert policy.evaluate(resolve_name(error)("x"), 1, 2).action.value == action


def test_the_form_asks_for_files_tables_and_how_they_are_taken(dags: dict[str, Any]) -> None:
    form = set(dags["sluice_shop"].params)
    assert form == {"window_start", "window_end", "files", "tables", "changed", "dry_run"}
    undo = {"pipeline", "batch", "to", "rebuild", "table", "release", "dry_run"}
    assert set(dags["sluice_rollback"].params) == undo
    again = {"pipeline", "batch", "reason", "accept_late", "accept_open"}
    assert set(dags["sluice_reprocess"].params) == again
    assert dags["sluice_reconcile"].params.get_param("pipeline").schema["enum"] == ["shop"]


def test_the_forms_take_no_more_than_they_need(dags: dict[str, Any]) -> None:
    form = {name: dags["sluice_shop"].params.get_param(name).schema for name in ("files", "tables")}
    assert [form[name]["maxItems"] for name in form] == [1000, 500]
    assert [form[name]["items"]["maxLength"] for name in form] == [1024, 400]
    again = dags["sluice_reprocess"].params
    assert again.get_param("batch").schema["pattern"] == BATCH_ID_PATTERN
    assert again.get_param("reason").schema["maxLength"] == 500


def test_maintenance_is_daily_and_a_task_a_pipeline(dags: dict[str, Any]) -> None:
    from airflow.sdk import CronDataIntervalTimetable

    from sluice_airflow.submit import MaintainOperator

    dag = dags["sluice_maintain"]
    assert isinstance(dag.timetable, CronDataIntervalTimetable)
    assert set(dag.params) == {"pipelines", "budget", "dry_run"}
    task = dag.get_task("maintain")
    assert task.operator_class is MaintainOperator
    assert task.operator_class.execute is MaintainOperator.execute
    unmapped = task.unmap({"pipeline": "shop"})
    assert unmapped.application.endswith("spark_jobs/maintain.py")
    assert unmapped.pipeline == "shop"


def test_the_published_tables_are_assets_found_at_run_time(shop: Any) -> None:
    assert [outlet.name for outlet in shop.get_task("batch.publish").outlets] == ["sluice/shop"]


def test_dags_survive_serialization(shop: Any) -> None:
    from airflow.serialization.serialized_objects import DagSerialization

    read: Any = DagSerialization.from_json(DagSerialization.to_json(shop))
    assert read.dag_id == "sluice_shop"


def test_airflow_loads_one_plugin_and_no_stray_modules(airflow_db: None) -> None:
    import sys

    from airflow import plugins_manager

    plugins_manager.ensure_plugins_loaded()
    assert "sluice" in {plugin.name for plugin in plugins_manager._get_plugins()[0]}
    assert not {"pipeline_dags", "tasks", "submit", "selection"} & set(sys.modules)
