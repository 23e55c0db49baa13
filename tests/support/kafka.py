"""Real Kafka and Kafka Connect with Debezium for tests: fetched once, each alone in its own folder, ended by its pid.

Asked for by the tests of topics. `python -m support.kafka` fetches the programs ahead of the tests. Must never touch a
server that it did not start.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from support.lake_servers import free_port, wait_for
from tidegate.spark import jars
from tidegate.spark.java import find_java

KAFKA = "4.2.1"
# What is fetched, by the folder that it is kept in. Of MariaDB's connector 3.6 is not published.
PROGRAMS: Mapping[str, tuple[str, ...]] = {
    f"kafka-{KAFKA}": (
        f"org.apache.kafka:kafka_2.13:{KAFKA}",
        f"org.apache.kafka:connect-runtime:{KAFKA}",
        f"org.apache.kafka:connect-json:{KAFKA}",
        "org.slf4j:slf4j-simple:1.7.36",
    ),
    "debezium-postgres-3.6.3": ("io.debezium:debezium-connector-postgres:3.6.3.Final",),
    "debezium-mariadb-3.5.0": ("io.debezium:debezium-connector-mariadb:3.5.0.Final",),
}
SMALL = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn")
BROKER = """process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{control}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{control}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
controller.listener.names=CONTROLLER
inter.broker.listener.name=PLAINTEXT
log.dirs={folder}/logs
num.partitions=1
auto.create.topics.enable=false
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=1
group.initial.rebalance.delay.ms=0
log.retention.check.interval.ms=500
log.segment.delete.delay.ms=0
"""
WORKER = """bootstrap.servers={bootstrap}
key.converter=org.apache.kafka.connect.json.JsonConverter
value.converter=org.apache.kafka.connect.json.JsonConverter
offset.storage.file.filename={folder}/offsets
offset.flush.interval.ms=1000
listeners=http://127.0.0.1:{port}
plugin.path={plugins}
topic.creation.enable=true
"""


@dataclass(kw_only=True)
class KafkaServer:
    """One broker: its folder, its port, and the topics made on it."""

    folder: Path
    port: int = field(default_factory=free_port)
    _names: Iterator[int] = field(default_factory=itertools.count)

    @property
    def bootstrap(self) -> str:
        """What a client is told."""
        return f"127.0.0.1:{self.port}"

    @cached_property
    def admin(self) -> AdminClient:
        """A client for topics; one that nobody holds any more breaks off what it was asked."""
        return AdminClient({"bootstrap.servers": self.bootstrap})

    def create_topic(self, name: str | None = None, *, partitions: int = 1, **config: str) -> str:
        """Makes a topic and returns its name."""
        name = name or f"shop.public.t{next(self._names)}"
        settings = {key.replace("_", "."): value for key, value in config.items()}
        topic = NewTopic(name, num_partitions=partitions, replication_factor=1, config=settings)
        self.admin.create_topics([topic])[name].result(30)
        self._settled(name, partitions)
        return name

    def add_partitions(self, name: str, total: int) -> None:
        """Gives the topic more partitions."""
        self.admin.create_partitions([NewPartitions(name, total)])[name].result(30)
        self._settled(name, total)

    def delete_topic(self, name: str) -> None:
        """Deletes it, and waits until it is gone."""
        self.admin.delete_topics([name])[name].result(30)
        self._settled(name, 0)

    def delete_before(self, name: str, offset: int, partition: int = 0) -> None:
        """What retention does: the events below the offset are gone."""
        wanted = TopicPartition(name, partition, offset)
        for done in self.admin.delete_records([wanted]).values():
            done.result(30)

    def send(
        self, topic: str, *messages: tuple[Any, Any], partition: int = 0, raw: bool = False, **options: str
    ) -> None:
        """Messages of key and value, in order; each JSON unless `raw`, None for none."""
        producer = Producer({"bootstrap.servers": self.bootstrap, "acks": "all", **options})
        if "transactional.id" in options:
            producer.init_transactions(30)
            producer.begin_transaction()
        for key, value in messages:
            texts = (key, value) if raw else tuple(None if each is None else json.dumps(each) for each in (key, value))
            producer.produce(topic, key=texts[0], value=texts[1], partition=partition)
            producer.poll(0)
        if "transactional.id" in options:
            producer.commit_transaction(30)
        assert producer.flush(30) == 0

    def ends(self, topic: str, partitions: Sequence[int] = (0,)) -> dict[int, int]:
        """The end offset of each partition."""
        with closing(self.consumer()) as client:
            return {n: client.get_watermark_offsets(TopicPartition(topic, n), timeout=30)[1] for n in partitions}

    def read(self, topic: str, partition: int = 0) -> list[tuple[bytes | None, bytes | None]]:
        """Every message there is now."""
        end, found = self.ends(topic, (partition,))[partition], []
        with closing(self.consumer()) as client:
            client.assign([TopicPartition(topic, partition, OFFSET_BEGINNING)])
            while True:
                message = client.poll(5)
                if message is None or message.error():
                    return found
                found.append((message.key(), message.value()))
                if (message.offset() or 0) + 1 >= end:
                    return found

    def consumer(self) -> Consumer:
        """A client that reads."""
        return Consumer({"bootstrap.servers": self.bootstrap, "group.id": "tests", "enable.auto.commit": False})

    def topics(self) -> set[str]:
        """The names of all topics."""
        return set(self.admin.list_topics(timeout=30).topics)

    def _settled(self, name: str, partitions: int) -> None:
        for _ in range(150):
            found = self.admin.list_topics(timeout=30).topics.get(name)
            if (len(found.partitions) if found else 0) == partitions:
                return
            time.sleep(0.1)
        raise RuntimeError(f"{name} did not get {partitions} partitions")


@dataclass(kw_only=True)
class ConnectServer:
    """One worker of Kafka Connect, standalone, with Debezium's connectors."""

    port: int

    def start(self, name: str, config: Mapping[str, str]) -> None:
        """Starts a connector, and waits until its task runs."""
        topics = {"topic.creation.default.replication.factor": "1", "topic.creation.default.partitions": "1"}
        self._ask("/connectors", {"name": name, "config": {**topics, **config}})
        for _ in range(300):
            with contextlib.suppress(urllib.error.HTTPError):
                status = self._ask(f"/connectors/{name}/status")
                tasks = [task["state"] for task in status["tasks"]]
                if tasks == ["RUNNING"]:
                    return
                if "FAILED" in tasks:
                    raise RuntimeError(str(status))
            time.sleep(0.2)
        raise RuntimeError(f"the connector {name} does not start")

    def stop(self, name: str) -> None:
        """Ends a connector; its database is left alone from then on."""
        self._ask(f"/connectors/{name}", method="DELETE")

    def _ask(self, path: str, body: Any = None, method: str | None = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/json"}
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}{path}", data=data, headers=headers, method=method
        )
        with urllib.request.urlopen(request, timeout=60) as answer:
            text = answer.read()
        return json.loads(text) if text else None

    def ready(self) -> None:
        """Returns once it answers: it says 404 for some seconds after its port opens."""
        for _ in range(300):
            with contextlib.suppress(OSError):
                self._ask("/connectors")
                return
            time.sleep(0.2)
        raise RuntimeError("Kafka Connect does not answer")


@pytest.fixture(scope="session")
def kafka() -> Iterator[KafkaServer]:
    """The broker of the session."""
    with broker() as server:
        yield server


@contextlib.contextmanager
def broker() -> Iterator[KafkaServer]:
    """A broker of its own."""
    server = KafkaServer(folder=Path(tempfile.mkdtemp(prefix="tidegate-kafka-")))
    with started(server, formatted(server)):
        yield server
    shutil.rmtree(server.folder, ignore_errors=True)


def formatted(server: KafkaServer) -> list[str]:
    """An empty broker in the server's folder; the command that starts it."""
    settings = server.folder / "server.properties"
    settings.write_text(BROKER.format(control=free_port(), port=server.port, folder=server.folder))
    java = [str(find_java().path), *SMALL, "-Xmx384m", "-cp", f"{programs(f'kafka-{KAFKA}')}/*"]
    cluster = uuid.uuid4().hex[:22]
    tool = [*java, "kafka.tools.StorageTool", "format", "-t", cluster, "-c", str(settings)]
    subprocess.run(tool, cwd=server.folder, check=True, timeout=120, capture_output=True)
    return [*java, "kafka.Kafka", str(settings)]


def started(server: KafkaServer, command: list[str]) -> contextlib.AbstractContextManager[subprocess.Popen[bytes]]:
    """The broker until the block ends, with what it had before."""
    return _running(command, server.folder, server.port)


@pytest.fixture(scope="session")
def connect(kafka: KafkaServer) -> Iterator[ConnectServer]:
    """The worker of the session, with the connectors of PostgreSQL and MariaDB."""
    folder = Path(tempfile.mkdtemp(prefix="tidegate-connect-"))
    plugins = folder / "plugins"
    plugins.mkdir()
    for name in PROGRAMS:
        if name.startswith("debezium"):
            (plugins / name).symlink_to(programs(name))
    server = ConnectServer(port=free_port())
    settings = folder / "connect.properties"
    settings.write_text(WORKER.format(bootstrap=kafka.bootstrap, folder=folder, port=server.port, plugins=plugins))
    java = [str(find_java().path), *SMALL, "-Xmx512m", "-cp", f"{programs(f'kafka-{KAFKA}')}/*"]
    command = [*java, "org.apache.kafka.connect.cli.ConnectStandalone", str(settings)]
    with _running(command, folder, server.port):
        server.ready()
        yield server
    shutil.rmtree(folder, ignore_errors=True)


def programs(name: str) -> Path:
    """The folder of a server's jars, fetched once with all that they need."""
    folder = jars.cache_folder().parent / "servers" / name
    if folder.is_dir():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    needs = "".join(
        '<dependency org="{}" name="{}" rev="{}"/>'.format(*coordinate.split(":")) for coordinate in PROGRAMS[name]
    )
    ivy = (
        '<ivy-module version="2.0"><info organisation="tidegate" module="servers"/><configurations>'
        '<conf name="default"/></configurations><dependencies '
        f'defaultconf="default->master,runtime(default),compile(default)">{needs}</dependencies></ivy-module>'
    )
    with tempfile.TemporaryDirectory(prefix=".fetch-", dir=folder.parent) as name_of:
        temporary = Path(name_of)
        (temporary / "ivy.xml").write_text(ivy)
        command = [str(find_java().path), "-jar", str(jars._ivy()), "-warn", "-cache", str(temporary / "cache")]
        settings = os.environ.get(jars.SETTINGS)
        command += ["-settings", settings] if settings else []
        command += ["-ivy", str(temporary / "ivy.xml"), "-confs", "default", "-types", "jar", "bundle"]
        command += ["-retrieve", f"{temporary}/libs/[artifact]-[revision](-[classifier]).[ext]"]
        subprocess.run(command, check=True, timeout=900, capture_output=True)
        with contextlib.suppress(OSError):  # another process was first
            (temporary / "libs").replace(folder)
    return folder


@contextlib.contextmanager
def _running(command: list[str], folder: Path, port: int) -> Iterator[subprocess.Popen[bytes]]:
    with (folder / "output").open("w+") as output:
        process = subprocess.Popen(command, cwd=folder, stdout=output, stderr=output)
        try:
            wait_for(port, process, folder / "output")
            yield process
        finally:
            process.terminate()
            try:
                process.wait(timeout=20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(timeout=20)


@contextlib.contextmanager
def closing(client: Consumer) -> Iterator[Consumer]:
    """The client until the block ends."""
    try:
        yield client
    finally:
        client.close()


if __name__ == "__main__":
    for each in PROGRAMS:
        sys.stdout.write(f"{programs(each)}\n")
