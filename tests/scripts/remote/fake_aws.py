"""A small AWS: moto behind a proxy that runs commands for real and goes wrong on demand.

moto's Systems Manager executes nothing, so the proxy answers its commands itself: it runs each
script with `sh` in a folder that stands for the instance's disk, and returns, like AWS, only the
first 24,000 characters. Everything else goes to moto, unless a fault is injected. moto is called
in this process; only the proxy has a port, the same for all tests.
"""

from __future__ import annotations

import base64
import json
import os
import re
import signal
import subprocess
import sys
import threading
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from shlex import quote
from typing import Any
from urllib.parse import parse_qs, urlsplit

import boto3
from botocore.awsrequest import AWSPreparedRequest, AWSResponse
from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from werkzeug.test import EnvironBuilder, run_wsgi_app

from .python_server import PythonServer

OUTPUT_LIMIT = 24_000
ERROR_LIMIT = 8_000
QUICK = 1.0  # seconds
HOP_HEADERS = {"connection", "transfer-encoding", "content-length", "server", "date"}

# The python of the environment on the instance, which notes what pip is told, and plays programs.
VENV_PYTHON = """\
#!/bin/sh
venv="${{0%/bin/python}}"
if [ "$1 $2" = "-m pip" ]; then
    echo "${{PIP_CONFIG_FILE:+PIP_CONFIG_FILE=$PIP_CONFIG_FILE }}$*" >> "$venv/pip.log"
    [ "$3" = list ] && echo torch==2.9.0 || echo installed
    exit
fi
exec {python} -IS "$venv/bin/play.py" "$@"
"""
PLAY = """\
import os, sys, time

arguments = sys.argv[1:]
venv = os.path.dirname(os.path.dirname(__file__))
script = " ".join(arguments[:3]) if arguments[1] == "pytest" else arguments[1]
behaviour = eval(open(venv + "/behaviour").read()).get(script, {})  # json takes long to import
with open(venv + "/ran.log", "a") as log:
    print(script, file=log)
print(f"running {script}", flush=True)
print(behaviour.get("print", ""), flush=True)
exec(behaviour.get("do", ""))
while "until" in behaviour and not os.path.exists(behaviour["until"]):
    time.sleep(0.01)
target = arguments[arguments.index("--out") + 1] if "--out" in arguments else None
for argument in arguments:
    if argument.startswith("--junitxml="):
        target = argument.partition("=")[2]
if not behaviour.get("writes_nothing"):
    with open(target, "w") as result:
        result.write(behaviour.get("content", '{"from": "%s"}' % script))
raise SystemExit(behaviour.get("exit", 0))
"""


@dataclass
class Request:
    """One request as the proxy received it."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes
    service: str = ""
    operation: str = ""
    parameters: dict[str, Any] = field(default_factory=dict)
    verb: str = ""  # of the worker, for commands


@dataclass
class Response:
    """An answer; None in its place closes the connection without one."""

    status: int
    body: bytes
    headers: dict[str, str] = field(default_factory=dict)


Forward = Callable[[Request], "Response | None"]
FaultFunction = Callable[[Request, Forward], "Response | None"]


@dataclass
class Fault:
    """Strikes requests of an operation (and verb): after `skip` of them, `times` times.

    With `when`, it counts only those at which that holds.
    """

    function: FaultFunction
    operation: str
    verb: str
    skip: int
    times: float
    when: Callable[[], bool] | None = None
    struck: int = 0


def error(code: str, status: int = 400) -> FaultFunction:
    """Returns a fault that answers with an error of AWS, in the protocol of the service."""

    def strike(request: Request, forward: Forward) -> Response:
        if request.service == "ssm":
            body = json.dumps({"__type": code, "message": f"injected {code}"})
        elif request.service == "s3":
            body = f"<Error><Code>{code}</Code><Message>injected</Message></Error>"
        else:
            body = (
                f"<Response><Errors><Error><Code>{code}</Code><Message>injected</Message></Error>"
                "</Errors><RequestID>1</RequestID></Response>"
            )
        return Response(status, body.encode())

    return strike


def close(request: Request, forward: Forward) -> None:
    """The request never arrives."""


def lose_answer(request: Request, forward: Forward) -> None:
    """The request arrives; its answer does not."""
    forward(request)


def invocation(**changes: Any) -> FaultFunction:
    """Returns a fault that changes fields of GetCommandInvocation, by values or functions."""

    def strike(request: Request, forward: Forward) -> Response | None:
        response = forward(request)
        assert response
        answer = json.loads(response.body)
        for key, change in changes.items():
            answer[key] = change(answer.get(key)) if callable(change) else change
        return Response(response.status, json.dumps(answer).encode())

    return strike


def change_output(change: Callable[[str], str]) -> FaultFunction:
    """Returns a fault that damages the output of a finished command on its way."""
    return invocation(StandardOutputContent=lambda text: change(text) if text else text)


def body(change: Callable[[bytes], bytes]) -> FaultFunction:
    """Returns a fault that changes the body of an answer on its way."""

    def strike(request: Request, forward: Forward) -> Response | None:
        response = forward(request)
        assert response
        return Response(response.status, change(response.body))

    return strike


def flip(text: str) -> str:
    """Returns a text with the character in its middle changed."""
    middle = len(text) // 2
    return text[:middle] + ("A" if text[middle] != "A" else "B") + text[middle + 1 :]


class Raw:
    """The body of an answer, as botocore reads it."""

    def __init__(self, content: bytes) -> None:
        self.content = content

    def stream(self, *arguments: Any, **options: Any) -> Iterator[bytes]:
        """Yields the whole body once."""
        yield self.content


class Moto:
    """moto as an application of this process, with clients that ask it without a connection."""

    def __init__(self) -> None:
        self.app = DomainDispatcherApplication(create_backend_app)
        self.ec2 = self.client("ec2")
        self.s3 = self.client("s3")

    def ask(self, request: Request) -> Response:
        """Returns moto's answer."""
        url = urlsplit(request.path)
        # Without a type, the body would be called a form, and moto would take it apart.
        headers = {"Content-Type": "application/octet-stream", **request.headers}
        builder = EnvironBuilder(
            path=url.path,
            query_string=url.query,
            method=request.method,
            headers=headers,
            data=request.body,
        )
        body, status, answered = run_wsgi_app(self.app, builder.get_environ(), buffered=True)
        return Response(int(status.split()[0]), b"".join(body), dict(answered))

    def client(self, service: str) -> Any:
        """Returns a client for tests, which does not go through the proxy and its faults."""

        def send(request: AWSPreparedRequest, **_: Any) -> AWSResponse:
            url = urlsplit(request.url)
            content = request.body or b""
            asked = Request(
                request.method,
                f"{url.path}?{url.query}",
                {key: text(value) for key, value in request.headers.items()},
                content if isinstance(content, bytes) else content.encode(),
            )
            response = self.ask(asked)
            return AWSResponse(request.url, response.status, response.headers, Raw(response.body))

        made = boto3.client(service, endpoint_url="http://127.0.0.1")
        made.meta.events.register(f"before-send.{service}", send)
        return made

    def reset(self) -> None:
        """Forgets everything."""
        self.ask(Request("POST", "/moto-api/reset", {}, b""))


def text(value: str | bytes) -> str:
    """Returns a header as text."""
    return value.decode() if isinstance(value, bytes) else value


class Proxy:
    """The port of the fake AWS, which all tests use, one after another."""

    def __init__(self) -> None:
        self.aws: FakeAws | None = None
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), self.handler())
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True).start()

    def close(self) -> None:
        """Closes the port."""
        self.server.shutdown()
        self.server.server_close()

    def respond(self, request: Request) -> Response | None:
        """Returns the answer of the AWS of this test."""
        return self.aws.respond(request) if self.aws else None

    def handler(self) -> type[BaseHTTPRequestHandler]:
        """Returns the class that serves requests."""
        proxy = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True
            wbufsize = -1

            def serve(self) -> None:
                length = int(self.headers.get("Content-Length") or 0)
                request = Request(
                    self.command, self.path, dict(self.headers), self.rfile.read(length)
                )
                response = proxy.respond(request)
                if response is None:
                    self.close_connection = True
                    return
                self.send_response_only(response.status)
                self.send_header("Date", response.headers.get("Date", self.date_time_string()))
                for key, value in response.headers.items():
                    if key.lower() not in HOP_HEADERS:
                        self.send_header(key, value)
                self.send_header("Content-Length", str(len(response.body)))
                self.end_headers()
                self.wfile.write(response.body)

            def handle_expect_100(self) -> bool:
                self.send_response_only(100)
                self.end_headers()
                self.wfile.flush()  # or botocore would wait a second for it, at every upload
                return True

            do_GET = do_POST = do_PUT = do_DELETE = do_HEAD = serve

            def log_message(self, *arguments: object) -> None:
                pass

        return Handler


class FakeAws:
    """A fake AWS: the disks of its instances, its answers to requests, and the faults."""

    def __init__(self, moto: Moto, proxy: Proxy, python: PythonServer, folder: Path) -> None:
        self.moto = moto
        self.ec2, self.s3 = moto.ec2, moto.s3
        self.proxy = proxy
        self.python = python
        self.folder = folder
        self.venv = folder / "venv"
        self.requests: list[Request] = []
        self.faults: list[Fault] = []
        self.invocations: dict[str, dict[str, Any]] = {}
        self.launches: dict[str, Response] = {}
        self.is_online = True
        self.lock = threading.Lock()
        self.make_venv()
        moto.reset()
        proxy.aws = self

    def close(self) -> None:
        """Stops answering, and ends all processes of the instances."""
        self.proxy.aws = None
        for disk in (self.folder / "instances").glob("*"):
            self.kill(disk.name)

    # What tests arrange

    def make_venv(self) -> None:
        """Makes the environment of the Neuron SDK, whose python plays programs."""
        binaries = self.venv / "bin"
        binaries.mkdir(parents=True)
        (binaries / "python").write_text(VENV_PYTHON.format(python=quote(sys.executable)))
        (binaries / "python").chmod(0o755)
        (binaries / "play.py").write_text(PLAY)
        self.behave({})

    def behave(self, behaviour: dict[str, Any]) -> None:
        """Sets how the programs on the instance behave."""
        (self.venv / "behaviour").write_text(repr(behaviour))

    @property
    def ran(self) -> list[str]:
        """Returns the programs that were started on instances."""
        log = self.venv / "ran.log"
        return log.read_text().splitlines() if log.exists() else []

    def inject(
        self,
        operation: str,
        function: FaultFunction,
        verb: str = "",
        skip: int = 0,
        times: float = 1,
        when: Callable[[], bool] | None = None,
    ) -> Fault:
        """Makes requests go wrong."""
        fault = Fault(function, operation, verb, skip, times, when)
        self.faults.append(fault)
        return fault

    def operations(self, *names: str) -> list[Request]:
        """Returns the requests of some operations that arrived."""
        return [one for one in self.requests if one.operation in names]

    def new_instance(
        self,
        stopped: bool = True,
        kind: str = "trn1.2xlarge",
        at_shutdown: str = "stop",
        **tags: str,
    ) -> str:
        """Makes an instance that exists before the run; returns its id."""
        answer = self.ec2.run_instances(
            ImageId="ami-12c6146b",
            InstanceType=kind,
            InstanceInitiatedShutdownBehavior=at_shutdown,
            MinCount=1,
            MaxCount=1,
            TagSpecifications=[
                {
                    "ResourceType": "instance",
                    "Tags": [{"Key": key, "Value": value} for key, value in tags.items()],
                }
            ]
            if tags
            else [],
        )
        identifier = answer["Instances"][0]["InstanceId"]
        if stopped:
            self.ec2.stop_instances(InstanceIds=[identifier])
        return identifier

    def new_template(self, name: str = "trnfft") -> str:
        """Makes a launch template; returns its name."""
        self.ec2.create_launch_template(
            LaunchTemplateName=name,
            LaunchTemplateData={"ImageId": "ami-12c6146b", "InstanceType": "trn1.2xlarge"},
        )
        return name

    # What tests look at

    def state(self, identifier: str) -> str:
        """Returns the state of an instance."""
        answer = self.ec2.describe_instances(InstanceIds=[identifier])
        return answer["Reservations"][0]["Instances"][0]["State"]["Name"]

    def states(self) -> list[str]:
        """Returns the states of all instances."""
        answer = self.ec2.describe_instances()
        return [i["State"]["Name"] for r in answer["Reservations"] for i in r["Instances"]]

    def disk(self, identifier: str) -> Path:
        """Returns the folder that stands for the home folder of root on an instance."""
        home = self.folder / "instances" / identifier
        if not home.exists():
            (home / "bin").mkdir(parents=True)
            switch = f'[ "$1" = -c ] && exec rm -f {home}/shutdown\necho "$*" > {home}/shutdown'
            self.program(home / "bin" / "shutdown", switch)
            venv = f'[ "$1 $2" = "-m venv" ] && exec ln -s {quote(str(self.venv))} "$3"'
            argv = f'echo "$*" >> {home}/argv'
            self.program(home / "bin" / "python3", "\n".join((argv, venv, self.python.client)))
        return home

    def boot(self, identifier: str, user_data: str = "") -> None:
        """Runs what cloud-init runs: user data at the first boot, scripts per boot at others."""
        home = self.disk(identifier)
        script = base64.b64decode(user_data).decode().replace("/var/lib/cloud", f"{home}/cloud")
        scripts = [script] if script else []
        if not user_data:
            found = sorted((home / "cloud" / "scripts" / "per-boot").glob("*"))
            scripts = [file.read_text() for file in found]
        environment = {"HOME": str(home), "PATH": f"{home}/bin:{os.environ['PATH']}"}
        for one in scripts:
            subprocess.run(["sh", "-c", one], cwd=home, env=environment, check=True)

    @staticmethod
    def program(path: Path, line: str) -> None:
        """Writes a shell script."""
        path.write_text(f"#!/bin/sh\n{line}\n")
        path.chmod(0o755)

    def shutdown_time(self, identifier: str) -> str | None:
        """Returns the "+minutes" after which the instance was told to shut down."""
        file = self.disk(identifier) / "shutdown"
        return file.read_text().split()[-1] if file.exists() else None

    def let_time_pass(self, identifier: str) -> None:
        """Lets the moment come at which an instance shuts itself down, if it was told to."""
        if self.shutdown_time(identifier) is None or self.state(identifier) != "running":
            return
        name = "instanceInitiatedShutdownBehavior"
        answer = self.ec2.describe_instance_attribute(InstanceId=identifier, Attribute=name)
        if answer["InstanceInitiatedShutdownBehavior"]["Value"] == "terminate":
            self.terminate(identifier)
        else:
            self.ec2.stop_instances(InstanceIds=[identifier])
            self.power_off(identifier, lose_disk=False)

    def terminate(self, identifier: str) -> None:
        """Terminates an instance, as somebody else would."""
        self.ec2.terminate_instances(InstanceIds=[identifier])
        self.power_off(identifier, lose_disk=True)

    def background(self, identifier: str) -> list[int]:
        """Returns the process ids of jobs that run on an instance."""
        found = []
        for file in self.disk(identifier).glob("trnfft-jobs/*/pid"):
            pid = int(file.read_text())
            state = Path(f"/proc/{pid}/stat")
            if state.exists() and state.read_text().rpartition(")")[2].split()[0] != "Z":
                found.append(pid)
        return found

    def kill(self, identifier: str) -> None:
        """Ends every process of an instance."""
        for pid in self.background(identifier):
            os.killpg(pid, signal.SIGKILL)

    def power_off(self, identifier: str, lose_disk: bool) -> None:
        """Does what a stop or a termination does to processes and disk."""
        self.kill(identifier)
        (self.disk(identifier) / "shutdown").unlink(missing_ok=True)
        if lose_disk:
            home = self.disk(identifier)
            home.rename(home.with_name(f"lost-{identifier}"))

    # What the proxy asks

    def respond(self, request: Request) -> Response | None:
        """Returns the answer to a request, through the first fault that strikes the request."""
        self.identify(request)
        with self.lock:
            self.requests.append(request)
            fault = self.due(request)
        return fault.function(request, self.forward) if fault else self.forward(request)

    def due(self, request: Request) -> Fault | None:
        """Returns the fault that strikes a request, if there is one."""
        for fault in self.faults:
            if fault.operation not in (request.operation, "*"):
                continue
            if fault.verb and fault.verb != request.verb:
                continue
            if fault.when and not fault.when():
                continue
            if fault.skip:
                fault.skip -= 1
            elif fault.struck < fault.times:
                fault.struck += 1
                return fault
        return None

    def identify(self, request: Request) -> None:
        """Finds out which operation of which service a request asks for."""
        headers = {key.lower(): value for key, value in request.headers.items()}
        if target := headers.get("x-amz-target"):
            request.service, request.operation = "ssm", target.partition(".")[2]
            request.parameters = json.loads(request.body)
            comment = request.parameters.get("Comment", "")
            if command := self.invocations.get(request.parameters.get("CommandId", "")):
                comment = command["Comment"]
            request.verb = comment.rpartition(" ")[2]
        elif "x-www-form-urlencoded" in headers.get("content-type", ""):
            fields = parse_qs(request.body.decode())
            request.service, request.operation = "ec2", fields["Action"][0]
            request.parameters = {key: values[0] for key, values in fields.items()}
        else:
            kinds = {"PUT": "PutObject", "GET": "GetObject", "DELETE": "DeleteObject"}
            request.service, request.operation = "s3", kinds.get(request.method, request.method)
            if "X-Amz-Signature" in parse_qs(urlsplit(request.path).query):
                request.operation += " presigned"

    def forward(self, request: Request) -> Response | None:
        """Returns the answer of an AWS in which nothing goes wrong."""
        operations = {
            "SendCommand": self.send_command,
            "GetCommandInvocation": self.get_command_invocation,
            "DescribeInstanceInformation": self.describe_instance_information,
        }
        if request.operation in operations:
            return operations[request.operation](request)
        token = request.parameters.get("ClientToken")
        if request.operation == "RunInstances" and token in self.launches:
            return self.launches[token]
        response = self.moto.ask(request)
        if request.operation == "RunInstances" and token and response.status == 200:
            self.launches[token] = response
            (identifier,) = re.findall(r"<instanceId>([^<]+)", response.body.decode())
            self.boot(identifier, request.parameters.get("UserData", ""))
        if request.operation == "StartInstances" and response.status == 200:
            self.boot(request.parameters["InstanceId.1"])
        if request.operation in ("StopInstances", "TerminateInstances"):
            lost = request.operation == "TerminateInstances"
            if response.status == 200:
                self.power_off(request.parameters["InstanceId.1"], lost)
        return response

    def send_command(self, request: Request) -> Response | None:
        """Runs a script on an instance, in the background like the SSM agent."""
        (instance,) = request.parameters["InstanceIds"]
        size = len(json.dumps(request.parameters))
        if size > 64_000:
            return error("MaxDocumentSizeExceeded")(request, self.forward)
        if self.state(instance) != "running":
            return error("InvalidInstanceId")(request, self.forward)
        identifier = str(uuid.uuid4())
        self.invocations[identifier] = {
            "CommandId": identifier,
            "InstanceId": instance,
            "Comment": request.parameters["Comment"],
            "Status": "InProgress",
            "StatusDetails": "InProgress",
            "StandardOutputContent": "",
            "StandardErrorContent": "",
        }
        (script,) = request.parameters["Parameters"]["commands"]
        thread = threading.Thread(target=self.execute, args=(identifier, script), daemon=True)
        thread.start()
        thread.join(QUICK)  # so that most tests need to ask for the output only once
        return Response(200, json.dumps({"Command": {"CommandId": identifier}}).encode())

    def execute(self, identifier: str, script: str) -> None:
        """Runs a script to its end and keeps what AWS would keep of its output."""
        found = self.invocations[identifier]
        home = self.disk(found["InstanceId"])
        environment = {"HOME": str(home), "PATH": f"{home}/bin:{os.environ['PATH']}"}
        done = subprocess.run(
            ["sh", "-c", script], cwd=home, env=environment, capture_output=True, text=True
        )
        found["StandardOutputContent"] = done.stdout[:OUTPUT_LIMIT]
        found["StandardErrorContent"] = done.stderr[:ERROR_LIMIT]
        found["StatusDetails"] = found["Status"] = "Failed" if done.returncode else "Success"

    def get_command_invocation(self, request: Request) -> Response | None:
        """Returns the state and the output of a command."""
        found = self.invocations.get(request.parameters["CommandId"])
        if found is None:
            return error("InvocationDoesNotExist")(request, self.forward)
        return Response(200, json.dumps(found).encode())

    def describe_instance_information(self, request: Request) -> Response:
        """Returns whether the SSM agent of an instance has reported."""
        (instance,) = request.parameters["Filters"][0]["Values"]
        known = self.is_online and self.state(instance) == "running"
        listed = [{"InstanceId": instance, "PingStatus": "Online"}] if known else []
        return Response(200, json.dumps({"InstanceInformationList": listed}).encode())
