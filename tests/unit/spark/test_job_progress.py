"""Progress is derived from Spark's tasks, and the session is left as it was."""

import threading
from dataclasses import dataclass, field
from types import SimpleNamespace

from tidegate.spark.job_progress import watched


@dataclass
class Context:
    """What PySpark's context answers: job 7 of the group is at work, in a stage of 40 tasks of which 10 are done."""

    broken: bool = False
    properties: dict = field(default_factory=lambda: {"spark.jobGroup.id": "theirs"})

    def getLocalProperty(self, name):  # noqa: N802 - PySpark's name
        return self.properties.get(name)

    def setLocalProperty(self, name, value):  # noqa: N802 - as above
        self.properties[name] = value

    def statusTracker(self):  # noqa: N802 - as above
        return self

    def getJobIdsForGroup(self, group):  # noqa: N802 - as above
        if self.broken:
            raise ConnectionError("the JVM is gone")
        return [3, 7] if group.startswith("tidegate orders ") else []

    def getJobInfo(self, job):  # noqa: N802 - as above
        return SimpleNamespace(status="RUNNING" if job == 7 else "SUCCEEDED", stageIds=[job, job + 1])

    def getStageInfo(self, stage):  # noqa: N802 - as above
        done, active = (10, 2) if stage == 7 else (0, 0)
        return SimpleNamespace(numTasks=40, numCompletedTasks=done, numActiveTasks=active)


def session(context):
    return SimpleNamespace(sparkContext=context)


def test_tasks_of_the_stage_at_work_are_told_and_properties_put_back():
    context, told, heard = Context(), [], threading.Event()

    def tell(text, share):
        told.append((text, share))
        heard.set()

    with watched(session(context), "orders", tell, every=0.01):
        assert context.properties["spark.job.description"] == "tidegate: orders"
        assert heard.wait(10)
    assert set(told) == {("Spark task 10 of 40", 0.25)}
    assert context.properties == {"spark.jobGroup.id": "theirs", "spark.job.description": None}
    assert not [each for each in threading.enumerate() if each.name == "progress"]


def test_a_spark_that_died_ends_no_load():
    told = []
    with watched(session(Context(broken=True)), "orders", lambda *each: told.append(each), every=0.01):
        pass
    assert told == []
