"""A small AWS: moto behind a port that runs commands for real and goes wrong on demand.

moto's Systems Manager executes nothing, so its commands are answered here: each script runs with
`sh` in a folder that stands for the instance's disk, and the answer has, like AWS's, only the first
24,000 characters. Everything else goes to moto, unless a fault is injected.
"""

from __future__ import annotations

import base64
import io
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from shlex import quote
from typing import Any
from urllib.parse import parse_qs

import boto3
from botocore.config import Config
from moto.moto_api._internal import moto_api_backend
from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import WSGIRequestHandler, make_server
from werkzeug.test import run_wsgi_app

OUTPUT_LIMIT = 24_000
ERROR_LIMIT = 8_000
QUICK = 1.0  # seconds
ALWAYS = float("inf")
TESTS = "of-the-tests"  # the user agent of requests that no fault strikes, and nobody counts

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
    """One request as it arrived."""

    environ: dict[str, Any]
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
    of_ec2 = f"<Error><Code>{code}</Code><Message>injected</Message></Error>"

    def strike(request: Request, forward: Forward) -> Response:
        bodies = {
            "ssm": json.dumps({"__type": code, "message": f"injected {code}"}),
            "ec2": f"<Response><Errors>{of_ec2}</Errors><RequestID>1</RequestID></Response>",
        }
        return Response(status, bodies[request.service].encode())

    return strike


def close(request: Request, forward: Forward) -> None:
    """The request never arrives."""


def lose_answer(request: Request, forward: Forward) -> None:
    """The request arrives; its answer does not."""
    forward(request)


def first(action: Callable[[], object]) -> FaultFunction:
    """Returns a fault that does something before the request is answered as usual."""

    def strike(request: Request, forward: Forward) -> Response | None:
        action()
        return forward(request)

    return strike


def body(change: Callable[[bytes], bytes]) -> FaultFunction:
    """Returns a fault that changes the body of an answer on its way."""

    def strike(request: Request, forward: Forward) -> Response | None:
        response = forward(request)
        assert response
        return Response(response.status, change(response.body))

    return strike


def invocation(**changes: str) -> FaultFunction:
    """Returns a fault that changes fields of GetCommandInvocation."""
    return body(lambda content: json.dumps({**json.loads(content), **changes}).encode())


def output(change: Callable[[str], str]) -> FaultFunction:
    """Returns a fault that damages the output of a finished command on its way."""

    def damaged(content: bytes) -> bytes:
        answer = json.loads(content)
        text = answer.get("StandardOutputContent")
        return json.dumps({**answer, "StandardOutputContent": text and change(text)}).encode()

    return body(damaged)


def flip(text: str) -> str:
    """Returns a text with the character in its middle changed."""
    middle = len(text) // 2
    return text[:middle] + ("A" if text[middle] != "A" else "B") + text[middle + 1 :]


class Quiet(WSGIRequestHandler):
    """Prints no line for each request, and sends no date: a fault may send another one."""

    def send_response(self, code: int, message: str | None = None) -> None:
        self.send_response_only(code, message)


class Port:
    """The port of the fake AWS, which all tests use, one after another."""

    def __init__(self) -> None:
        self.aws: FakeAws | None = None
        self.moto = DomainDispatcherApplication(create_backend_app)
        self.server = make_server("127.0.0.1", 0, self, threaded=True, request_handler=Quiet)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True).start()
        options = {"endpoint_url": self.url, "config": Config(user_agent_extra=TESTS)}
        self.ec2 = boto3.client("ec2", **options)

    def __call__(self, environ: dict[str, Any], start_response: Callable) -> list[bytes]:
        """Answers a request, as an application of WSGI."""
        length = int(environ.get("CONTENT_LENGTH") or 0)
        request = Request(environ, environ["wsgi.input"].read(length))
        response: Response | None = None
        if TESTS in environ.get("HTTP_USER_AGENT", ""):
            response = self.ask_moto(request)
        elif self.aws:
            response = self.aws.respond(request)
        if response is None:
            environ["werkzeug.socket"].shutdown(socket.SHUT_RDWR)
            raise ConnectionAbortedError
        start_response(f"{response.status} .", list(response.headers.items()))
        return [response.body]

    def ask_moto(self, request: Request) -> Response:
        """Returns moto's answer."""
        # Without a type, the body would be called a form, and moto would take it apart.
        kind = request.environ.get("CONTENT_TYPE") or "application/octet-stream"
        content = {"wsgi.input": io.BytesIO(request.body), "CONTENT_TYPE": kind}
        answer, status, headers = run_wsgi_app(
            self.moto, {**request.environ, **content}, buffered=True
        )
        return Response(int(status.split()[0]), b"".join(answer), dict(headers))


class FakeAws:
    """A fake AWS: the disks of its instances, its answers to requests, and the faults."""

    def __init__(self, port: Port, folder: Path) -> None:
        self.port = port
        self.ec2 = port.ec2
        self.folder = folder
        self.venv = folder / "venv"
        self.requests: list[Request] = []
        self.faults: list[Fault] = []
        self.invocations: dict[str, dict[str, Any]] = {}
        self.launches: dict[str, Response] = {}
        self.is_online = True
        self.lock = threading.Lock()
        (self.venv / "bin").mkdir(parents=True)
        (self.venv / "bin" / "play.py").write_text(PLAY)
        self.program(self.venv / "bin" / "python", VENV_PYTHON.format(python=quote(sys.executable)))
        self.behave({})
        moto_api_backend.reset()
        port.aws = self

    def close(self) -> None:
        """Stops answering, and ends all processes of the instances."""
        self.port.aws = None
        for disk in (self.folder / "instances").glob("*"):
            self.kill(disk.name)

    # What tests arrange

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
        listed = [{"Key": key, "Value": value} for key, value in tags.items()]
        answer = self.ec2.run_instances(
            ImageId="ami-12c6146b",
            InstanceType=kind,
            InstanceInitiatedShutdownBehavior=at_shutdown,
            MinCount=1,
            MaxCount=1,
            TagSpecifications=[{"ResourceType": "instance", "Tags": listed}] if tags else [],
        )
        identifier = answer["Instances"][0]["InstanceId"]
        if stopped:
            self.ec2.stop_instances(InstanceIds=[identifier])
        return identifier

    def new_template(self, name: str = "trnfft", kind: str = "trn1.2xlarge") -> str:
        """Makes a launch template; returns its name."""
        data = {"ImageId": "ami-12c6146b", "InstanceType": kind}
        self.ec2.create_launch_template(LaunchTemplateName=name, LaunchTemplateData=data)
        return name

    # What tests look at

    def instances(self) -> dict[str, str]:
        """Returns the states of all instances, by their ids."""
        found = [i for r in self.ec2.describe_instances()["Reservations"] for i in r["Instances"]]
        return {one["InstanceId"]: one["State"]["Name"] for one in found}

    def state(self, identifier: str) -> str:
        """Returns the state of an instance."""
        return self.instances()[identifier]

    def states(self) -> list[str]:
        """Returns the states of all instances."""
        return list(self.instances().values())

    def disk(self, identifier: str) -> Path:
        """Returns the folder that stands for the home folder of root on an instance."""
        home = self.folder / "instances" / identifier
        if not home.exists():
            (home / "bin").mkdir(parents=True)
            switch = f'[ "$1" = -c ] && exec rm -f {home}/shutdown\necho "$*" > {home}/shutdown'
            self.program(home / "bin" / "shutdown", switch)
            argv = f'echo "$*" >> {home}/argv'
            venv = f'[ "$1 $2" = "-m venv" ] && exec ln -s {quote(str(self.venv))} "$3"'
            python = f'exec {quote(sys.executable)} -IS "$@"'
            self.program(home / "bin" / "python3", f"{argv}\n{venv}\n{python}")
        return home

    def execute(self, identifier: str, script: str) -> subprocess.CompletedProcess:
        """Runs a shell script on an instance."""
        home = self.disk(identifier)
        environment = {"HOME": str(home), "PATH": f"{home}/bin:{os.environ['PATH']}"}
        return subprocess.run(
            ["sh", "-c", script], cwd=home, env=environment, capture_output=True, text=True
        )

    def boot(self, identifier: str, user_data: str = "") -> None:
        """Runs what cloud-init runs: user data at the first boot, scripts per boot at others."""
        home = self.disk(identifier)
        found = sorted((home / "cloud" / "scripts" / "per-boot").glob("*"))
        scripts = [file.read_text() for file in found]
        if user_data:
            script = base64.b64decode(user_data).decode()
            scripts = [script.replace("/var/lib/cloud", f"{home}/cloud")]
        for one in scripts:
            self.execute(identifier, one).check_returncode()

    @staticmethod
    def program(path: Path, text: str) -> None:
        """Writes a shell script."""
        path.write_text(text if text.startswith("#!") else f"#!/bin/sh\n{text}\n")
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
            state = Path(f"/proc/{file.read_text()}/stat")
            if state.exists() and state.read_text().rpartition(")")[2].split()[0] != "Z":
                found.append(int(file.read_text()))
        return found

    def kill(self, identifier: str) -> None:
        """Ends every process of an instance."""
        for pid in self.background(identifier):
            os.killpg(pid, signal.SIGKILL)

    def power_off(self, identifier: str, lose_disk: bool) -> None:
        """Does what a stop or a termination does to processes and disk."""
        self.kill(identifier)
        home = self.disk(identifier)
        (home / "shutdown").unlink(missing_ok=True)
        if lose_disk:
            home.rename(home.with_name(f"lost-{identifier}"))

    # What the port asks

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
            is_other = fault.operation not in (request.operation, "*")
            if is_other or (fault.verb and fault.verb != request.verb):
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
        environ = request.environ
        if target := environ.get("HTTP_X_AMZ_TARGET"):
            request.service, request.operation = "ssm", target.partition(".")[2]
            request.parameters = json.loads(request.body)
            command = self.invocations.get(request.parameters.get("CommandId", ""), {})
            comment = request.parameters.get("Comment") or command.get("Comment", "")
            request.verb = comment.rpartition(" ")[2]
        else:
            fields = parse_qs(request.body.decode())
            request.service, request.operation = "ec2", fields["Action"][0]
            request.parameters = {key: values[0] for key, values in fields.items()}

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
        if token in self.launches:
            return self.launches[token]
        response = self.port.ask_moto(request)
        if response.status != 200:
            return response
        if token:
            self.launches[token] = response
            (identifier,) = re.findall(r"<instanceId>([^<]+)", response.body.decode())
            self.boot(identifier, request.parameters.get("UserData", ""))
        if request.operation == "StartInstances":
            self.boot(request.parameters["InstanceId.1"])
        if request.operation in ("StopInstances", "TerminateInstances"):
            lost = request.operation == "TerminateInstances"
            self.power_off(request.parameters["InstanceId.1"], lost)
        return response

    def send_command(self, request: Request) -> Response | None:
        """Runs a script on an instance, in the background like the SSM agent."""
        (instance,) = request.parameters["InstanceIds"]
        if len(json.dumps(request.parameters)) > 64_000:
            return error("MaxDocumentSizeExceeded")(request, self.forward)
        if self.state(instance) != "running":
            return error("InvalidInstanceId")(request, self.forward)
        identifier = str(uuid.uuid4())
        found = self.invocations[identifier] = {
            "CommandId": identifier,
            "InstanceId": instance,
            "Comment": request.parameters["Comment"],
            "Status": "InProgress",
            "StandardOutputContent": "",
        }
        (script,) = request.parameters["Parameters"]["commands"]

        def run() -> None:
            done = self.execute(instance, script)
            found["StandardOutputContent"] = done.stdout[:OUTPUT_LIMIT]
            found["StandardErrorContent"] = done.stderr[:ERROR_LIMIT]
            found["StatusDetails"] = found["Status"] = "Failed" if done.returncode else "Success"

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        thread.join(QUICK)  # so that most tests need to ask for the output only once
        return Response(200, json.dumps({"Command": {"CommandId": identifier}}).encode())

    def get_command_invocation(self, request: Request) -> Response | None:
        """Returns the state and the output of a command."""
        return Response(200, json.dumps(self.invocations[request.parameters["CommandId"]]).encode())

    def describe_instance_information(self, request: Request) -> Response:
        """Returns whether the SSM agent of an instance has reported."""
        (instance,) = request.parameters["Filters"][0]["Values"]
        known = self.is_online and self.state(instance) == "running"
        listed = [{"InstanceId": instance, "PingStatus": "Online"}] if known else []
        return Response(200, json.dumps({"InstanceInformationList": listed}).encode())
