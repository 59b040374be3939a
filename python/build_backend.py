"""Builds the wheel: `pip install ./python`, or `pip wheel --no-deps ./python`.

The wheel has the tag py3-none-PLATFORM and works with Python 3.9 or newer, because the package loads libyoke through ctypes:

    yoke/*.py               the package
    yoke/_native/           what `cmake --install` installs: bin/yoke, lib/libyoke.so.0, lib/yoke/yoke-mpi-*.so
    yoke/_native/lib/yoke/  and the shared libraries that a bare machine lacks, which the RPATH of yoke and libyoke finds
    .data/scripts/yoke      runs yoke/_native/bin/yoke
    .data/data/share/       man pages and completions of bash, zsh and fish

MPI is not included, and only needed under mpirun: the plug-in loads that of the machine. The environment variable YOKE_BUILD names the build directory
(default: build-pip in the checkout); what is already built there is not built again.
"""
import base64
import email.message
import hashlib
import os
import platform
import re
import shutil
import subprocess
import tempfile
import zipfile

HERE = os.path.dirname(os.path.abspath(__file__))
SOURCE = os.path.dirname(HERE)
# Part of glibc, or of every Linux: manylinux allows programs to rely on them.
SYSTEM_LIBRARIES = re.compile(r"(linux-vdso|ld-linux.*|lib(c|m|dl|rt|pthread|gcc_s))\.so(\.\d+)*$")
# pip install './python[sklearn]': the estimators, which bring SciPy; notebook: the progress display
EXTRAS = {"sklearn": ["scikit-learn>=1.6"], "notebook": ["ipykernel"]}
EXTRAS["all"] = sum(EXTRAS.values(), [])
SCRIPT = """#!python
import importlib.util, os, sys
program = os.path.join(os.path.dirname(importlib.util.find_spec("yoke").origin), "_native", "bin", "yoke")
os.execv(program, ["yoke"] + sys.argv[1:])
"""


class UnsupportedOperation(Exception):
    """PEP 517 has the frontend report this."""


def version():
    with open(os.path.join(SOURCE, "CMakeLists.txt")) as f:
        return re.search(r"project\(yoke VERSION ([0-9.]+)", f.read()).group(1)


def run(*command):
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def compile_with_progress(directory):
    """pip hides the output of a build: the number of compiled files goes to the terminal, if there is one."""
    try:
        terminal = open("/dev/tty", "w")
    except OSError:
        terminal = None
    ninja = subprocess.Popen(["ninja", "-C", directory, "yoke", "libyoke"], stdout=subprocess.PIPE, text=True)
    for line in ninja.stdout:
        print(line, end="", flush=True)
        done = re.match(r"\[(\d+)/(\d+)\]", line)
        if done and terminal:
            print("\r  compiling yoke: %s of %s\033[K" % done.groups(), end="", file=terminal, flush=True)
    if terminal:
        print("\r\033[K", end="", file=terminal, flush=True)
        terminal.close()
    if ninja.wait():
        raise RuntimeError("yoke could not be compiled; the output above says why")


def build(into):
    """Compiles, and installs program, library and plug-ins below `into`."""
    for tool in ("cmake", "ninja"):
        if not shutil.which(tool):
            raise RuntimeError(f"building yoke needs {tool}; ./dev packages installs what is needed (Debian, Ubuntu)")
    directory = os.environ.get("YOKE_BUILD") or os.path.join(SOURCE, "build-pip")
    if not os.path.exists(os.path.join(directory, "build.ninja")):
        subprocess.run(["cmake", "-S", SOURCE, "-B", directory, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release",
                        "-DCMAKE_INSTALL_LIBDIR=lib"], check=True)
    compile_with_progress(directory)
    subprocess.run(["cmake", "--install", directory, "--prefix", into, "--component", "runtime", "--strip"], check=True,
                   stdout=subprocess.DEVNULL)
    library = os.path.join(into, "lib", "libyoke.so.0")
    os.replace(os.path.realpath(library), library)  # a wheel has no links


def bundle(into):
    """Copies the shared libraries that program and library need, and their licenses."""
    private = os.path.join(into, "lib", "yoke")
    os.makedirs(private, exist_ok=True)
    needed = {}
    for file in (os.path.join(into, "bin", "yoke"), os.path.join(into, "lib", "libyoke.so.0")):
        for name, path in re.findall(r"^\s*(\S+) => (/\S+)", run("ldd", file), re.M):
            needed[name] = path
    licenses = {}
    for name, path in sorted(needed.items()):
        if SYSTEM_LIBRARIES.match(name):
            continue
        copy = os.path.join(private, name)
        shutil.copy(os.path.realpath(path), copy)
        os.chmod(copy, 0o755)
        for owned in (os.path.realpath(path), path, os.path.realpath(path).replace("/usr/lib/", "/lib/")):
            found = subprocess.run(["dpkg", "-S", owned], capture_output=True, text=True) if shutil.which("dpkg") else None
            if found and found.returncode == 0:
                package = found.stdout.split(":")[0]
                licenses[package] = f"/usr/share/doc/{package}/copyright"
                break
    return {package: path for package, path in licenses.items() if os.path.exists(path)}


def files_below(directory):
    for at, _, names in sorted(os.walk(directory)):
        for name in sorted(names):
            path = os.path.join(at, name)
            yield os.path.relpath(path, directory), path


def platform_tag(directory):
    """manylinux_2_X: the glibc that the files need."""
    newest = (2, 17)
    for _, path in files_below(directory):
        for major, minor in re.findall(r"GLIBC_(\d+)\.(\d+)", run("readelf", "-V", "-W", path)):
            newest = max(newest, (int(major), int(minor)))
    return "manylinux_%d_%d_%s" % (*newest, platform.machine())


def metadata():
    m = email.message.EmailMessage()
    m["Metadata-Version"] = "2.1"
    m["Name"] = "yoke"
    m["Version"] = version()
    m["Summary"] = "Train linear models, factorization machines and convolutional networks by distributed stochastic gradient descent"
    m["Requires-Python"] = ">=3.9"
    m["Requires-Dist"] = "numpy"
    for extra, needs in EXTRAS.items():
        m["Provides-Extra"] = extra
        for package in needs:
            m["Requires-Dist"] = f"{package} ; extra == '{extra}'"
    return m.as_bytes()


def documents():
    """Man pages and completions: (name below the prefix of an installation, path)."""
    manual = os.path.join(SOURCE, "docs", "man")
    for name in sorted(os.listdir(manual)):
        if name.endswith(".1"):
            yield f"share/man/man1/{name}", os.path.join(manual, name)
    for name, place in (("yoke.bash", "bash-completion/completions/yoke"), ("_yoke", "zsh/site-functions/_yoke"),
                        ("yoke.fish", "fish/vendor_completions.d/yoke.fish")):
        yield f"share/{place}", os.path.join(SOURCE, "completions", name)


def write_wheel(path, entries):
    """entries: (name in the archive, bytes or path of a file, executable)."""
    info = f"yoke-{version()}.dist-info"
    record = []
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name, content, executable in entries:
            if isinstance(content, str):
                with open(content, "rb") as f:
                    content = f.read()
            item = zipfile.ZipInfo(name, (2020, 1, 1, 0, 0, 0))
            item.compress_type = zipfile.ZIP_DEFLATED
            item.external_attr = (0o100755 if executable else 0o100644) << 16
            archive.writestr(item, content)
            digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
            record.append(f"{name},sha256={digest},{len(content)}")
        record.append(f"{info}/RECORD,,")
        archive.writestr(zipfile.ZipInfo(f"{info}/RECORD", (2020, 1, 1, 0, 0, 0)), "\n".join(record) + "\n")


def prepare_metadata_for_build_wheel(metadata_directory, config_settings=None):
    """Without it, pip builds the wheel twice."""
    info = f"yoke-{version()}.dist-info"
    os.makedirs(os.path.join(metadata_directory, info))
    with open(os.path.join(metadata_directory, info, "METADATA"), "wb") as f:
        f.write(metadata())
    return info


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    base, info = f"yoke-{version()}", f"yoke-{version()}.dist-info"
    with tempfile.TemporaryDirectory() as native:
        build(native)
        licenses = bundle(native)
        tag = f"py3-none-{platform_tag(native)}"
        entries = [(f"yoke/{name}", path, False) for name, path in files_below(os.path.join(HERE, "yoke"))
                   if name.endswith(".py")]
        for name, path in files_below(native):
            entries.append((f"yoke/_native/{name}", path, True))
        entries.append((f"{base}.data/scripts/yoke", SCRIPT.encode(), True))
        entries += [(f"{base}.data/data/{name}", path, False) for name, path in documents()]
        entries.append((f"{info}/licenses/LICENSE", os.path.join(SOURCE, "LICENSE"), False))
        for package, path in sorted(licenses.items()):
            entries.append((f"{info}/licenses/{package}", path, False))
        entries.append((f"{info}/METADATA", metadata(), False))
        entries.append((f"{info}/WHEEL", f"Wheel-Version: 1.0\nGenerator: yoke\nRoot-Is-Purelib: false\n"
                                         f"Tag: {tag}\n".encode(), False))
        name = f"{base}-{tag}.whl"
        write_wheel(os.path.join(wheel_directory, name), entries)
    return name


def build_sdist(sdist_directory, config_settings=None):
    raise UnsupportedOperation("there is no source distribution: build the wheel in a checkout of yoke")
