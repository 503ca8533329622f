# Does what Falco's rules forbid while they are live, and looks for each alert with its process, parent and file.
"""The scenes and the program that plays them are those of tests/kernel, which checks the same on a recording."""
import json, os, pathlib, subprocess, time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
PROGRAMS = ROOT / "tests/kernel/programs"


def scenes():
    """Rule, line to play, parent, process and what the file's name contains; first the one that waits for 5 s."""
    result = []
    for line in (PROGRAMS / "forbidden.tsv").read_text().splitlines():
        if line.startswith("#"):
            continue
        rule, flags, parent, process, file, *arguments = line.replace("~", "/root").split("\t")
        result.append((rule, "\t".join([flags, parent, process, *arguments]), parent, process.rsplit("/", 1)[-1], "" if file == "-" else file))
    return sorted(result, key=lambda scene: "late-read" not in scene[1])


def container():
    """A control group with the name of a container; None if none can be made."""
    for base in ("/sys/fs/cgroup/memory", "/sys/fs/cgroup/cpuset", "/sys/fs/cgroup"):
        folder = pathlib.Path(base) / f"docker-{os.getpid():064x}.scope"
        try:
            folder.mkdir()
        except OSError:
            continue
        if (folder / "cgroup.procs").exists():
            return folder
        folder.rmdir()
    return None


def play(falco, work):
    """Plays all scenes; returns how many were found, of how many, and those that were not."""
    program, folder = work / "forbidden", container()
    if subprocess.run(["cc", "-O1", "-static", "-w", "-o", program, PROGRAMS / "forbidden.c"]).returncode or folder is None:
        return {"skipped": "needs a static C library and a control group"}
    all_of = scenes()
    try:
        player = subprocess.Popen([program, "stage", folder / "cgroup.procs"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        place = player.stdout.readline().split()
        player.communicate("".join(f"{scene[1]}\n" for scene in all_of))
        time.sleep(1)
    finally:
        folder.rmdir()
        if len(place) == 2:
            pathlib.Path(place[1]).rmdir()
    falco.end()
    alerts = []
    for _, line in falco.lines:
        try:
            alert = json.loads(line)
        except ValueError:
            continue
        if isinstance(alert, dict) and "rule" in alert:
            alerts.append(alert)
    missing = []
    for rule, line, parent, process, file in all_of:
        of_rule = [a for a in alerts if a["rule"] == rule]
        fields = lambda a: a.get("output_fields") or {}
        # Not every output of a rule has the arguments of its call.
        is_name = "/" in file or "." in file
        is_its = lambda a: ((process == "ghost" or fields(a).get("proc.name") == process) and fields(a).get("proc.pname", parent) == parent
                            and (not is_name or any(file in str(value) for value in fields(a).values())))
        if not any(is_its(a) for a in of_rule):
            missing.append(f"{rule}: {[fields(a).get('proc.name') for a in of_rule][:3]}")
    return {"found": len(all_of) - len(missing), "of": len(all_of), "missing": missing, "exit": falco.process.returncode}
