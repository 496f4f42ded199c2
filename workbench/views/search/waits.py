"""How long a retriever takes until it answers its first question: what of a dataset is encoded already, and how long
the rest takes."""

from mrc_workbench.data.records import Question, QuestionSet
from mrc_workbench.data.split import Part
from mrc_workbench.data.store import StoredSet
from mrc_workbench.data.text.analysis import are_kept
from mrc_workbench.data.text.dictionary import DictionaryError
from mrc_workbench.models.files import ModelError
from mrc_workbench.models.sources import find_model
from mrc_workbench.retrieval.comparison.first_stage import DenseSpec, LateSpec, TermSpec
from mrc_workbench.retrieval.comparison.multistage import LearnedSpec
from mrc_workbench.retrieval.comparison.pace import forecasts
from mrc_workbench.retrieval.comparison.spec import CachedRetriever, Materials, Spec
from mrc_workbench.workbench.views.choices import Choices
from mrc_workbench.workbench.views.resources.retrieval import materials

SOON = 3.0  # seconds: who takes longer is selected on demand


def waits(data: StoredSet, choices: Choices) -> dict[str, float]:
    """Return expected seconds by the names of all retrievers that can be searched, what each wraps included.

    Loading a model is not counted. Those of which nothing is known are left out, such as models of the hub, which would
    have to be asked.
    """
    known = [name for name in choices.searchable if all(_is_here(spec) for spec in choices.needed([name]))]
    if not known:
        return {}
    made = materials(data.key, choices.experiment(data, known, Part.ALL).model_dump_json())
    # of so many passages even the names of the files take long to compute
    own = {spec.name: _own_wait(spec, made, look=not choices.large) for spec in choices.needed(known)}
    needed = {name: [own[spec.name] for spec in choices.needed([name])] for name in known}
    return {name: sum(filter(None, parts)) for name, parts in needed.items() if None not in parts}


def _is_here(spec: Spec) -> bool:
    """Whether its model, if it has one, is on this machine."""
    if not spec.needs_model:
        return True
    try:
        return not find_model(str(dict(spec.local)["model"])).hub_id
    except ModelError:  # it fails at once and says why
        return True


def _own_wait(spec: Spec, made: Materials, *, look: bool) -> float | None:
    """Return the seconds of a retriever alone, None if unknown, after a `look` at the disk."""
    retriever = made.made[spec.name]
    if isinstance(retriever, Exception):  # it fails at once
        return 0.0
    if retriever.ready or (look and _is_stored(spec, retriever, made)):
        return 0.0
    whole = made.whole
    one_question = QuestionSet(whole.name, whole.passages, (Question("", "?"),))
    asked = whole if isinstance(spec, LearnedSpec) else one_question
    return forecasts({spec.name: spec}, asked)[spec.name].seconds


def _is_stored(spec: Spec, retriever: CachedRetriever, made: Materials) -> bool:
    """Whether everything is on disk that takes long to compute of the passages."""
    if isinstance(spec, TermSpec):
        try:
            dictionary = made.dictionary(spec.dictionary) if spec.dictionary else None
        except DictionaryError:
            return False
        texts = made.texts(spec.title)
        return are_kept(spec.options(dictionary).analysis(texts), texts)
    if isinstance(spec, DenseSpec):
        return made.encoder(spec.model, spec.title, spec.precision).has_passages(made.texts(spec.title))
    if isinstance(spec, LateSpec):
        return spec.encoder(made).has_passages(made.texts(spec.title), made.passages.heads(title=spec.title))
    # what others learn from all questions, or weigh of all passages, was made when these were compared
    asked = [question.text for question in made.whole.questions]
    return len(asked) > 1 and retriever.remembers(asked, retriever.depth)
