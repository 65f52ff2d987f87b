"""Runs the tasks of a job on the workers of a pipeline; `execute.tasks` runs them in this process."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import apache_beam as beam


class SpreadTasks(beam.PTransform):
    """Lists the tasks of each element, and distributes them among the workers.

    Input: PCollection of plans, usually one. Output: PCollection of their tasks, in any order.
    """

    def __init__(self, list_tasks: Callable[..., Iterable[Any]], *arguments: Any, task_type: Any) -> None:
        """Sets the function; `list_tasks(plan, *arguments)` returns the tasks, which are of `task_type`."""
        super().__init__()
        self._list_tasks, self._arguments, self._task_type = list_tasks, arguments, task_type

    def expand(self, plans: beam.PCollection) -> beam.PCollection:
        """Builds the flow."""
        tasks = plans | "List" >> beam.FlatMap(self._list_tasks, *self._arguments).with_output_types(self._task_type)
        return tasks | "Spread" >> beam.Reshuffle()


class RunTasks(beam.PTransform):
    """Does all tasks of a plan.

    Input: PCollection of one plan. Output: PCollection of the result of each task, in any order.
    """

    def __init__(
        self,
        list_tasks: Callable[[Any], Iterable[Any]],
        function: Callable[..., Any],
        *arguments: Any,
        task_type: Any,
    ) -> None:
        """Sets the functions.

        Args:
            list_tasks: returns the tasks of a plan.
            function: is called as `function(task, plan, *arguments)`; an engine may call it again for the same task.
            *arguments: further arguments, which may be side inputs. Unlike the plan and the tasks, they are pickled in
                a way that a lambda is, too.
            task_type: type of a task.
        """
        super().__init__()
        self._spread = SpreadTasks(list_tasks, task_type=task_type)
        self._function, self._arguments = function, arguments

    def expand(self, plan: beam.PCollection) -> beam.PCollection:
        """Builds the flow."""
        run = beam.Map(self._function, beam.pvalue.AsSingleton(plan), *self._arguments)
        return plan | "Tasks" >> self._spread | "Run" >> run
