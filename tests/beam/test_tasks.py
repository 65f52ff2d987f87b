"""Tasks on the workers of a pipeline give the results of those in this process."""

import apache_beam as beam
from apache_beam.testing.util import assert_that, equal_to

from beam_datasets.beam.tasks import RunTasks, SpreadTasks
from beam_datasets.execute.tasks import run_tasks

PLAN = {"b": 3, "a": 2}


def list_tasks(plan):
    return [(name, number) for name, count in plan.items() for number in range(count)]


def describe(task, plan, separator):
    name, number = task
    return f"{name}{separator}{number} of {plan[name]}"


def test_the_same_results_as_in_this_process():
    here = run_tasks(list_tasks(PLAN), lambda task: describe(task, PLAN, "-"))
    assert here[0] == "b-0 of 3"
    with beam.Pipeline() as pipeline:
        plan = pipeline | beam.Create([PLAN])
        assert_that(plan | RunTasks(list_tasks, describe, "-", task_type=tuple[str, int]), equal_to(here))


def test_tasks_of_tasks():
    with beam.Pipeline() as pipeline:
        counts = pipeline | beam.Create([[2, 3]]) | "Counts" >> SpreadTasks(iter, task_type=int)
        parts = counts | "Parts" >> SpreadTasks(lambda start, stop: range(start, stop), 4, task_type=int)
        assert_that(parts, equal_to([2, 3, 3]))
