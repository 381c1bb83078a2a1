"""What talks to the Hugging Face Hub, with `zoo/jobs.py` and nothing else: repositories' names, fetching, publishing,
listing.

Nothing here waits for ever: a call ends within its deadline, in what was asked for or in a HubError that says what to
do. A repository is anybody's: only files of an agent are taken from it, of limited size, checked against their hash.
"""

import errno
import hashlib
import os
import re
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Literal, NamedTuple, TypeVar

try:
    from huggingface_hub import (
        HfApi,
        ModelCardData,
        ResolvedRevision,
        get_session,
        get_token,
        hf_hub_download,
        try_to_load_from_cache,
    )
    from huggingface_hub.errors import (
        HfHubHTTPError,
        HFValidationError,
        RepositoryNotFoundError,
        RevisionResolutionError,
    )
except ModuleNotFoundError as missing:
    raise ImportError("the Hugging Face Hub needs its client: pip install 'a3c-arcade[hub]'") from missing

from a3c_core.checkpoint import MAX_JSON_BYTES, CheckpointError, printable

TAG = "a3c-arcade"
"""What all repositories of our format are tagged with."""

FETCH_SECONDS, ANSWER_SECONDS, PUBLISH_SECONDS = 30.0, 10.0, 900.0
"""Deadlines: for all files of an agent, for one answer where the cache can stand in, for an upload."""
STALL_SECONDS = 60.0
"""A connection over which nothing has come for so long is given up."""
ATTEMPTS, PAUSE_SECONDS = 3, 2.0
"""Uploads that a busy Hub refuses are tried so often, with a pause that doubles."""
MOST_BYTES = {".safetensors": 64 * 2**20, ".json": MAX_JSON_BYTES}
"""Kinds of files that are taken from a repository, and the largest of each that is believed to be an agent's."""
MOST_BYTES_OF_RUN = {".safetensors": 2**30, ".json": MAX_JSON_BYTES, ".jsonl": 2**28}
"""The same for a run, which holds its optimizer's state and its log too."""

REASONS = {
    401: "the Hub does not accept the token: sign in again (on the command line: `hf auth login`, or HF_TOKEN)",
    402: "Hugging Face asks to be paid: Gradio Spaces need PRO, or ZeroGPU hardware (--hardware zero-a10g), static "
    "ones (--static) nothing, rented machines a positive credit balance (huggingface.co/settings/billing)",
    403: "the token may not do that: take one that may write to this namespace, and start Jobs to rent machines",
    404: "the Hub has no such repository, revision, file or job, or it is private: check the name, or sign in "
    "(on the command line: `hf auth login`)",
    409: "the Hub has something of that name already: choose another name",
    412: "somebody else changed the repository at the same time: try again",
    429: "the Hub asks for a pause: try again in a few minutes",
}
"""What to say of each status that the Hub answers with."""
BUSY = (None, 429, 500, 502, 503, 504)
"""Statuses that pass, None for no answer at all."""
REPOSITORY = re.compile(r"(?!datasets/|spaces/)[\w-][\w.-]{0,95}/[\w-][\w.-]{0,95}", re.ASCII)
ADDRESS = re.compile(r"^(?:https?://[^/]*|(?:www\.)?(?:huggingface|hf)\.co)/|[?#].*", re.DOTALL)
"""What an address has before and behind the path."""
COMMIT = re.compile(r"[0-9a-f]{40}")

SDK = Literal["gradio", "static"]
"""What a Space runs: the app, or nothing."""

Result = TypeVar("Result")


class HubError(OSError):
    """The Hub did not do what it was asked for; the message says why and what to do."""


class Listed(NamedTuple):
    """One agent's repository in a listing."""

    repo: str
    env: str
    score: str
    downloads: int
    revision: str


def repository(text: str) -> str | None:
    """The repository `user/name` that a visitor's text or address names; None where it can't be one."""
    name = "/".join(ADDRESS.sub("", text.strip()).strip("/").split("/")[:2])
    return name if REPOSITORY.fullmatch(name) and ".." not in name else None


def short_name(env: str) -> str:
    """An environment's name as agents are called by it: its id in small letters, without namespace and version."""
    words = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", re.sub(r"-v\d+$", "", env.split("/")[-1])).lower()
    return re.sub(r"[^a-z0-9_.-]", "", words).strip("_.-") or "agent"


def repository_of(name: str, env: str, namespace: str) -> str:
    """Where the agent `name` is published: namespace/a3c-ENV, and a tag unless it is the environment's main agent."""
    game = short_name(env)
    mains = {game, game.replace("_", "")}
    tag = next((name.removeprefix(main).strip("-_.") for main in mains if name.startswith(main)), name)
    return f"{namespace}/a3c-{env.replace('/', '-')}{tag and '-'}{tag}"


def namespace_of(given: str | None) -> str:
    """The user or organization to look at: the one given, else A3C_ZOO_NAMESPACE, else the Space's author."""
    found = given or os.environ.get("A3C_ZOO_NAMESPACE") or os.environ.get("SPACE_AUTHOR_NAME")
    if not found:
        raise HubError("whose agents? Give --namespace USER, or set A3C_ZOO_NAMESPACE.")
    return found


def fetch(
    repo: str,
    files: Iterable[str],
    revision: str | None = None,
    *,
    seconds: float = FETCH_SECONDS,
    most: Mapping[str, int] = MOST_BYTES,
) -> dict[str, Path]:
    """The given files of a repository in the cache, by their names there; all from one commit.

    A commit that is in the cache costs no request; of a branch or tag the cache's copy is used where the Hub is away.
    Raises HubError; CheckpointError for a file that is none of ours, too large or not what its hash says.
    """
    files, ends = list(files), time.monotonic() + seconds
    commit = revision or ""
    if not COMMIT.fullmatch(commit):
        revision = _resolve(repo, revision, ends)
        commit = revision.resolved
    found = {file: try_to_load_from_cache(repo, file, revision=commit) for file in files}
    if not all(isinstance(path, str) for path in found.values()):
        _check_sizes(repo, commit, files, most, ends)
        for file in files:
            download = partial(hf_hub_download, repo, file, revision=revision)
            found[file] = patiently(ends, f"get {file} of {repo}", download, seconds=seconds)
    paths = {file: Path(path) for file, path in found.items()}
    if damaged := [file for file, path in paths.items() if not _is_sound(path)]:
        raise CheckpointError(
            f"{' and '.join(damaged)} of {repo} came damaged (another hash) and was thrown away: try again."
        )
    return paths


def _resolve(repo: str, revision: str | None, ends: float) -> ResolvedRevision:
    """The commit that a branch or tag names now, or that it named when the Hub last told."""
    resolve = partial(HfApi().resolve_revision, repo, revision=revision)
    try:
        return patiently(ends, f"find {repo}", resolve, seconds=ANSWER_SECONDS)
    except HubError as error:
        if status_of(error) not in BUSY:
            raise
        try:
            return resolve(local_files_only=True)
        except RevisionResolutionError:
            raise error from error.__cause__


def _check_sizes(repo: str, commit: str, files: list[str], most: Mapping[str, int], ends: float) -> None:
    """Raises before anything is downloaded that is missing, or too large to be part of an agent."""
    look = partial(HfApi().model_info, repo, revision=commit, files_metadata=True)
    info = patiently(ends, f"look at {repo}", look, seconds=ANSWER_SECONDS)
    sizes = {file.rfilename: file.size for file in info.siblings or ()}
    for file in files:
        if file not in sizes:
            raise CheckpointError(f"{repo} has no {file}: it holds no agent of A3C Arcade. Choose another repository.")
        largest = most.get(Path(file).suffix, 0)
        if (sizes[file] or 0) > largest:
            raise CheckpointError(
                f"{file} of {repo} has {sizes[file]:,} bytes, more than an agent's {largest:,}: it is not taken."
            )


def _is_sound(path: Path) -> bool:
    """Whether a file is what the cache names it by, its hash (sha256 or git's); it is thrown away if not."""
    blob = path.resolve()
    data = blob.read_bytes()
    expected = {64: lambda: hashlib.sha256(data), 40: lambda: hashlib.sha1(b"blob %d\0" % len(data) + data)}
    if not re.fullmatch(r"[0-9a-f]{40}|[0-9a-f]{64}", blob.name) or expected[len(blob.name)]().hexdigest() == blob.name:
        return True
    path.unlink(missing_ok=True)
    blob.unlink(missing_ok=True)
    return False


def publish(
    folder: Path, repo: str, *, private: bool, message: str, token: str | None = None, seconds: float = PUBLISH_SECONDS
) -> str:
    """Makes `repo` hold exactly the files of `folder`, in one commit, and tags it; returns the commit's 40-hex name.

    What an interrupted call left behind is completed by the next. Raises HubError, also where somebody else changes the
    repository meanwhile, or where it is to be private and is public.
    """
    api, ends = HfApi(token=token), time.monotonic() + seconds

    def ask(what: str, call: Callable[[], Result], seconds: float = FETCH_SECONDS) -> Result:
        return patiently(ends, f"{what} {repo}", call, seconds=seconds)

    ask("create", lambda: api.create_repo(repo, private=private, exist_ok=True))
    before = ask("look at", lambda: api.model_info(repo))
    if private and not before.private:
        raise HubError(f"{repo} is public already: make it private on the Hub first, or publish without --private.")
    upload = partial(
        api.upload_folder,
        repo_id=repo,
        folder_path=folder,
        commit_message=message,
        delete_patterns=["*"],
        parent_commit=before.sha,
    )
    commit = ask("upload to", upload, PUBLISH_SECONDS).oid
    tags = ask("read the tags of", lambda: api.list_repo_refs(repo)).tags
    if commit not in {tag.target_commit for tag in tags}:
        versions = [int(tag.name[1:]) for tag in tags if re.fullmatch(r"v\d{1,6}", tag.name)]
        name = f"v{max(versions, default=0) + 1}"
        ask("tag", lambda: api.create_tag(repo, tag=name, revision=commit, exist_ok=True))
    return commit


def account() -> str:
    """The name of whoever is signed in. Raises HubError."""
    if not get_token():
        raise HubError(f"cannot tell who you are: {REASONS[401].partition(': ')[2]}.")
    return patiently(time.monotonic() + FETCH_SECONDS, "ask who you are", lambda: HfApi().whoami())["name"]


def open_private(repo: str) -> None:
    """Makes sure that `repo` is there and private. Raises HubError."""
    api, ends = HfApi(), time.monotonic() + FETCH_SECONDS
    patiently(ends, f"create {repo}", lambda: api.create_repo(repo, private=True, exist_ok=True))
    if not patiently(ends, f"look at {repo}", lambda: api.model_info(repo)).private:
        raise HubError(f"{repo} is public: make it private on the Hub first, or name another repository.")


def put(folder: Path, repo: str, place: str, *, message: str) -> None:
    """Makes the directory `place` of a repository hold what `folder` holds, but for TensorBoard's. Raises HubError."""
    upload = partial(
        HfApi().upload_folder,
        repo_id=repo,
        folder_path=folder,
        path_in_repo=place,
        commit_message=message,
        ignore_patterns=["events.out.*", ".*"],
        delete_patterns=["*"],
    )
    patiently(time.monotonic() + PUBLISH_SECONDS, f"upload to {repo}", upload, seconds=PUBLISH_SECONDS)


def put_file(file: Path, repo: str, place: str) -> str:
    """Uploads a file into a directory of `place` that is named after its content, which costs nothing where it is there
    already; returns its path in the repository. Raises HubError."""
    path = f"{place}/{hashlib.sha256(file.read_bytes()).hexdigest()[:16]}/{file.name}"
    upload = partial(HfApi().upload_file, path_or_fileobj=file, path_in_repo=path, repo_id=repo)
    upload = partial(upload, commit_message=f"Add {file.name}")
    patiently(time.monotonic() + PUBLISH_SECONDS, f"upload to {repo}", upload, seconds=PUBLISH_SECONDS)
    return path


def files_in(repo: str, place: str) -> tuple[str, list[str]]:
    """The newest commit of a repository, and the paths that it has below the directory `place`. Raises HubError."""
    look = partial(HfApi().model_info, repo)
    info = patiently(time.monotonic() + FETCH_SECONDS, f"look at {repo}", look)
    return info.sha, [file.rfilename for file in info.siblings or () if file.rfilename.startswith(f"{place}/")]


def collect(namespace: str, title: str, repos: Iterable[str]) -> str:
    """Puts repositories into a collection of that title; returns its address' last part. Raises HubError."""
    api, ends = HfApi(), time.monotonic() + PUBLISH_SECONDS
    what = f"fill the collection {title!r}"
    slug = patiently(ends, what, lambda: api.create_collection(title, namespace=namespace, exists_ok=True)).slug
    for repo in repos:
        patiently(ends, what, lambda r=repo: api.add_collection_item(slug, r, "model", exists_ok=True))
    return slug


def deploy_space(folder: Path, space: str, *, sdk: SDK, hardware: str | None, private: bool) -> str:
    """Makes `space` a Space that holds exactly the files of `folder`; returns its address. Raises HubError."""
    api, ends = HfApi(), time.monotonic() + PUBLISH_SECONDS
    url = patiently(
        ends,
        f"create the Space {space}",
        lambda: api.create_repo(
            space, repo_type="space", space_sdk=sdk, space_hardware=hardware, private=private, exist_ok=True
        ),
    )
    upload = partial(
        api.upload_folder,
        repo_id=space,
        repo_type="space",
        folder_path=folder,
        commit_message="Deploy A3C Arcade",
        delete_patterns=["*"],
    )
    patiently(ends, f"upload to the Space {space}", upload, seconds=PUBLISH_SECONDS)
    return str(url)


def listing(namespace: str, *, seconds: float = FETCH_SECONDS) -> list[Listed]:
    """The agents of our format that `namespace` has published, by name. Raises HubError."""
    models = within(
        seconds,
        f"list the agents of {namespace}",
        lambda: list(HfApi().list_models(author=namespace, filter=TAG, cardData=True, full=True)),
    )
    return sorted(_listed(model.id, model.card_data, model.downloads, model.sha) for model in models)


def _listed(repo: str, card: ModelCardData | None, downloads: int | None, revision: str | None) -> Listed:
    results = (card and card.eval_results) or []
    env, score = (results[0].dataset_name, results[0].metric_value) if results else ("", "")
    return Listed(printable(repo, 200), printable(env, 200), printable(score, 200), downloads or 0, revision or "")


def patiently(ends: float, what: str, call: Callable[[], Result], *, seconds: float = FETCH_SECONDS) -> Result:
    """`within` so many seconds and before `ends`; again where the Hub was busy. `call` may be made twice."""
    for attempt in range(ATTEMPTS):
        try:
            return within(min(seconds, ends - time.monotonic()), what, call)
        except HubError as error:
            pause = PAUSE_SECONDS * 2**attempt
            last = attempt == ATTEMPTS - 1 or time.monotonic() + pause >= ends
            if last or isinstance(error.__cause__, (TimeoutError, HFValidationError)) or status_of(error) not in BUSY:
                raise
            time.sleep(pause)
    raise AssertionError


def within(seconds: float, what: str, call: Callable[[], Result]) -> Result:
    """What `call` returns, if it does so within `seconds`; it goes on unheard where it takes longer."""
    outcome: list[Result] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            get_session().timeout = STALL_SECONDS  # the client has none: its threads would keep the process from ending
            outcome.append(call())
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(max(0.0, seconds))
    with _reasons(what):
        if errors:
            raise errors[0]
        if not outcome:
            raise TimeoutError
    return outcome[0]


@contextmanager
def _reasons(what: str) -> Iterator[None]:
    """Turns what the Hub's client raises, which has no common base, into a HubError that says what to do."""
    try:
        yield
    except Exception as error:
        raise HubError(f"cannot {what}: {reason(error)}.") from error


def status_of(error: BaseException | None) -> int | None:
    """What the Hub answered with, which the client's errors may hide behind others; None where it did not answer."""
    while error is not None:
        if isinstance(error, RepositoryNotFoundError):
            return 404
        if isinstance(error, HfHubHTTPError) and error.response is not None:
            return error.response.status_code
        error = error.__cause__
    return None


def reason(error: BaseException) -> str:
    """Why the Hub did not do what it was asked for, and what to do, without a full stop."""
    if status := status_of(error):
        return REASONS.get(status, f"the Hub has trouble (status {status}): try again in a few minutes")
    if isinstance(error, TimeoutError):
        return "the Hub did not answer in time: check the network, or try again later"
    if isinstance(error, HFValidationError):
        return "the Hub has no such names: use letters, digits and, one at a time between them, - _ ."
    if isinstance(error, OSError) and error.errno == errno.ENOSPC:
        return "the disk is full: free some space"
    return "the Hub cannot be reached: check the network, or try again later"
