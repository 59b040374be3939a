"""Messages of the program in terms of Python: "try --lr 0.1" becomes "try lr=0.1", "--resume" becomes "resume=True"."""
import re

# Values that a message may give after an option, besides numbers, 'TEXT', PLACEHOLDER, and words with one of : = /
_WORDS = {"accuracy", "adagrad", "adam", "adamw", "all", "always", "any", "async", "auc", "auto", "balanced", "brier",
          "calibration_error", "channel", "constant", "cosine", "f1", "flip", "ftrl", "hinge", "image", "inverse", "local",
          "log_loss", "logistic", "logreg", "loss", "macro_f1", "macro_precision", "macro_recall", "mae", "momentum", "nesterov",
          "never", "none", "normalized_entropy", "one-cycle", "plateau", "pr_auc", "precision", "r2", "recall", "rmse",
          "rowwise-adagrad", "sgd", "softmax", "squared", "step", "sync"}
_WORD = re.compile(rf"(?<![\w-])(?:{'|'.join(sorted(_WORDS))})(?![\w-])")
_VALUE = r"(?: ('[^']*'|[^\s;)]*(?:=\.\.\.|[^\s;,:.)])))?"
_OTHERS = rf"((?:, {_WORD.pattern})*(?: or {_WORD.pattern})?)"  # other values, as in --optimizer adam or adamw
_OPTION = re.compile(r"(\bunknown |\byoke train )?--([a-z][a-z0-9-]*)" + _VALUE + _OTHERS + r"(?=(:?))")
_COMMAND = re.compile(r"\byoke train((?: [a-z][a-z0-9_]*=(?:\"[^\"]*\"|[^\s;,:)]+))+)")
_SCALE = re.compile(r"\(csv:\s\?scale=standard\)")
_TEXTS = ("verdict", "advice", "text", "error")  # keys of the summary whose values are sentences
_arguments = {}  # what each option takes; None: nothing


def _is_value(text, before, after):
    return text not in ("and", "or") and bool(before or after or text in _WORDS or re.fullmatch(r"'.*'|[-+]?\.?\d.*|[A-Z]+|.*[:=/].*", text))


def as_literal(text):
    return text if re.fullmatch(r"[-+]?\d+|[-+]?[\d.]+(e[-+]?\d+)?|[A-Z]+", text) else '"' + text.strip("'") + '"'


def in_python(text, names=None, in_memory=False, frame=False):
    """names: other names of options. in_memory: the data is a matrix, or with `frame` a frame, which has no spec."""
    if not _arguments:
        from ._native import option_table  # which imports this module
        _arguments.update((option["name"], option["argument"]) for option in option_table())

    def replace(match):
        before, option, value, others, after = match.groups()
        if option not in _arguments:
            return match[0]
        before, value = before or "", value or ""
        name = (names or {}).get(option, option.replace("-", "_"))
        if not _arguments[option]:
            name += "=True"
        elif value and _is_value(value, before, after):
            return f"{before}{name}={as_literal(value)}" + _WORD.sub(r'"\g<0>"', others)
        return before + name + (value and " " + value) + others

    text = text.replace("yoke train --help", "yoke.options()")
    while (changed := _OPTION.sub(replace, text)) != text:  # the value of one option may be the next option
        text = changed
    text = _COMMAND.sub(lambda match: "yoke.train(" + ", ".join(re.findall(r"\w+=(?:\"[^\"]*\"|\S+)", match[1])) + ")", text)
    if frame:
        text = text.replace("?label=NAME", 'table={"label": "NAME"}')
    remedy = 'table={"scale": "standard"}' if frame else "StandardScaler of scikit-learn"
    return _SCALE.sub(f"({remedy})", text) if in_memory else text


def summary_in_python(value, names=None):
    """A summary whose sentences are in terms of Python."""
    in_memory = value.get("data") == "memory"

    def walk(value, key=None):
        if isinstance(value, dict):
            return {name: walk(item, name) for name, item in value.items()}
        if isinstance(value, list):
            return [walk(item) for item in value]
        return in_python(value, names, in_memory) if key in _TEXTS and isinstance(value, str) else value

    return walk(value)
