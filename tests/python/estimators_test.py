"""The estimators keep scikit-learn's conventions: check_estimator, Pipeline, GridSearchCV, pickle, pandas, CSR matrices.

Runs with the wheel in an environment of its own (./dev test python). Exit status: 0 passed, else failed.
"""
import os
import pickle
import warnings

import numpy as np
import scipy.sparse as sp
from sklearn.base import clone

import yoke
from program import main


def blobs(n=400, classes=2, columns=6):
    rng = np.random.default_rng(1)
    y = rng.integers(0, classes, n)
    return (rng.normal(size=(n, columns)) + 3 * np.eye(classes, columns)[y]).astype(np.float32), y


def clicks(rows=3000, columns=500, nnz=8):
    """A CSR matrix, with labels that follow from its columns."""
    rng = np.random.default_rng(2)
    index = np.sort(np.array([rng.choice(columns, nnz, replace=False) for _ in range(rows)]), axis=1)
    weight = rng.normal(size=columns)
    y = (weight[index].sum(axis=1) > 0).astype(int)
    return sp.csr_matrix((np.ones(rows * nnz, np.float32), index.ravel(), np.arange(rows + 1) * nnz), (rows, columns)), y


CLASSIFIERS = yoke.LogisticRegression, yoke.SoftmaxRegression, yoke.ClickModel, yoke.Network
ESTIMATORS = *CLASSIFIERS, yoke.LinearRegression, yoke.ClickRegressor, yoke.NetworkRegressor


def test_check_estimator():
    from sklearn.utils.estimator_checks import check_estimator
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for kind in ESTIMATORS:
            failing = {f"check_sample_weight_equivalence_on_{data}_data": "batches differ, as for scikit-learn's SGDClassifier"
                       for data in ("dense", "sparse")}
            if kind is yoke.SoftmaxRegression:  # the last batch of an epoch has 2 rows
                failing["check_class_weight_classifiers"] = "a batch of 2 rows of weight 0.0001 takes a full step, as with the weights of PyTorch's CrossEntropyLoss"
            check_estimator(kind(), expected_failed_checks=failing)


def raises(words, act, kind=ValueError):
    try:
        act()
    except kind as error:
        assert words in str(error), error
    else:
        raise AssertionError(f"no error: {words}")


def test_messages_name_the_public_class():
    for kind in CLASSIFIERS:
        raises(f"{kind.__name__}.__init__() got an unexpected keyword argument", lambda: kind(learning_rate=1), TypeError)
        raises(f"{kind.__name__}.fit() missing", lambda: kind().fit(), TypeError)
        raises(f"{kind.__name__}.predict_proba() missing", lambda: kind().predict_proba(), TypeError)
        assert kind.fit.__doc__ and repr(kind(lr=2)) == f"{kind.__name__}(lr=2)"
    X, y = blobs()
    raises("layers", lambda: yoke.Network("nonsense").fit(X, y))
    raises("random_state=", lambda: yoke.LogisticRegression(random_state=-5).fit(X, y))
    raises('lr_schedule="plateau" needs early_stopping=True', lambda: yoke.LogisticRegression(lr_schedule="plateau").fit(X, y))
    for fraction in (2, 0, 1.0, -0.1, None, True, "none", np.nan):
        raises(f"validation_fraction={fraction!r}: must be a number between 0 and 1",
               lambda: yoke.LogisticRegression(early_stopping=True, validation_fraction=fraction).fit(X, y))
    for fraction in (0.0001, 0.9999):
        raises("no rows are left in this part: choose a larger or smaller fraction (split, validation_fraction)",
               lambda: yoke.LogisticRegression(early_stopping=True, validation_fraction=fraction).fit(X, y))
    raises('class_weight=\'equal\': use {class: weight}, "balanced" or None',
           lambda: yoke.LogisticRegression(class_weight="equal").fit(X, y))
    raises("the weight of 0 must be at least 0", lambda: yoke.LogisticRegression(class_weight={0: -1}).fit(X, y))


def test_labels_of_any_integer_type():
    X, y = blobs(classes=3)
    for labels in (np.array([2**63 + 1, 2**63 + 2, 2**63 + 9], np.uint64), np.array([-100, 0, 100], np.int8),
                   np.array([-32768, 5, 32767], np.int16), np.array([-1, 0, 1]), np.array([0, 1, 2], ">i4"),
                   np.array([-3, 0, 2**40]), np.array([2**53 + 1, 2**53, 2**60])):
        model = yoke.SoftmaxRegression(epochs=5).fit(X, labels[y])
        assert model.classes_.dtype == labels.dtype and model.classes_.tolist() == sorted(labels.tolist()), model.classes_
        assert model.score(X, labels[y]) > 0.8, labels


def test_failed_fit_changes_nothing():
    X, y = blobs()
    model = yoke.LogisticRegression(epochs=3).fit(X, y)
    expected = model.predict_proba(X)
    model.lr = 1e30
    raises("", lambda: model.fit(100 * X[:, :4], y + 5), yoke.Error)
    raises("", lambda: model.partial_fit(100 * X, y), yoke.Error)
    assert model.classes_.tolist() == [0, 1] and model.n_features_in_ == 6
    assert np.array_equal(model.predict_proba(X), expected)


def test_default_epochs_reach_1000_steps():
    X, y = blobs(150)
    for options in ({"workers": 4}, {"workers": "2"}, {"workers": "auto"}, {"batch": "8"}, {"batch": 16.0}, {"batch": None},
                    {"workers": 2, "mode": "async"}, {"workers": 2, "mode": "async", "staleness": 0}):
        steps = yoke.LogisticRegression(**options).fit(X, y).summary_["steps"]
        assert 1000 <= steps < 1500, (options, steps)


def test_parameters_are_passed_on():
    own = {"layers", "image", "model", "fields", "epochs", "copy", "table", "random_state", "early_stopping", "validation_fraction",
           "n_iter_no_change", "shuffle", "fit_intercept", "warm_start", "verbose", "callback"}  # the others are options of yoke train
    for kind in ESTIMATORS:
        estimator = kind()
        estimator.classes_ = [0, 1]
        passed = estimator._options(3)
        assert set(estimator.get_params()) - own <= set(passed), kind
        assert passed["epochs"] == 3 and not {"layers", "image", "fields", "copy", "random_state"} & set(passed), kind


def test_weights_equal_repeated_rows():
    """In one batch of all rows. Without shuffling, the order of the rows does not matter."""
    X, y = blobs(60, classes=3)
    weight = np.arange(60) % 3
    for kind, labels in ((yoke.LogisticRegression, y % 2), (yoke.SoftmaxRegression, y), (yoke.LinearRegression, X[:, 0] - 2 * y),
                         (yoke.Network, y), (yoke.NetworkRegressor, X[:, 0] - 2 * y), (yoke.ClickRegressor, X[:, 0] - 2 * y)):
        for data in (X,) if kind in (yoke.Network, yoke.NetworkRegressor) else (sp.csr_matrix(X), X)[:1 if kind is yoke.ClickRegressor else 2]:
            weighted = kind(batch=64, epochs=20, optimizer="sgd", lr=0.01).fit(data, labels, sample_weight=weight)
            rows = np.repeat(np.arange(60), weight)
            repeated = kind(batch=64, epochs=20, optimizer="sgd", lr=0.01).fit(data[rows], labels[rows])
            predict = "predict_proba" if hasattr(weighted, "predict_proba") else "predict"
            assert np.allclose(getattr(weighted, predict)(data), getattr(repeated, predict)(data), atol=1e-5), kind
            assert np.isclose(weighted.model_.evaluate(data, labels, weight)["loss"], repeated.model_.evaluate(data[rows], labels[rows])["loss"],
                              rtol=1e-4), kind
    raises("", lambda: yoke.LinearRegression().fit(X, y, sample_weight=-weight))
    raises("zero weight, so it learned nothing", lambda: yoke.LinearRegression().fit(X, y, sample_weight=0 * weight))
    raises("all examples have zero weight", lambda: weighted.model_.evaluate(data, labels, 0 * weight))
    raises("the weights must have shape (60,)", lambda: yoke.LinearRegression().fit(X, y, sample_weight=weight[:3]))


def test_class_weights():
    import pandas as pd
    from sklearn.utils.class_weight import compute_sample_weight
    X, y = blobs(300)
    names = np.where(y, "yes", "no")
    rare = np.r_[:300][(y == 0) | (np.arange(300) % 9 == 0)]
    for weights in ({"yes": 5, "no": 1}, {"yes": 0.2}, "balanced"):
        column = yoke.LogisticRegression(batch=len(rare), epochs=200, lr=0.3).fit(X[rare], names[rare],
                                                                              compute_sample_weight(weights, names[rare]))
        same = yoke.LogisticRegression(batch=len(rare), epochs=200, lr=0.3, class_weight=weights).fit(X[rare], names[rare])
        assert np.allclose(column.predict_proba(X), same.predict_proba(X), atol=1e-5), weights
    for labels, two in (names, "yes"), (y + 1, 2), (y, 1):  # the classes of frames have names
        array, frame = (yoke.LogisticRegression(epochs=3, class_weight={two: 5}).fit(data, labels)
                        for data in (X, pd.DataFrame(X, columns=[f"x{i}" for i in range(X.shape[1])])))
        assert np.allclose(array.coef_, frame.coef_), two
    raises("class_weight: 'maybe' is not one of the classes", lambda: yoke.LogisticRegression(class_weight={"maybe": 1}).fit(X, names))
    raises("class_weight=\"balanced\"", lambda: yoke.Network(class_weight="balanced").partial_fit(X, y, classes=[0, 1]))


def test_ensembles_with_weights():
    from sklearn.calibration import CalibratedClassifierCV
    from sklearn.ensemble import AdaBoostClassifier, AdaBoostRegressor
    X, y = blobs(300)
    assert AdaBoostClassifier(yoke.LogisticRegression(epochs=5), n_estimators=5).fit(X, y).score(X, y) > 0.9
    assert CalibratedClassifierCV(yoke.LogisticRegression(epochs=5), cv=2).fit(X, y, sample_weight=np.arange(300) % 2).score(X, y) > 0.9
    target = X @ np.arange(6) - 1
    assert AdaBoostRegressor(yoke.LinearRegression(), n_estimators=3, random_state=0).fit(X, target).score(X, target) > 0.9


def test_regression():
    import pandas as pd
    from sklearn.linear_model import LinearRegression
    X, _ = blobs(500)
    y = 100 + 10 * X @ np.array([1, -2, 0, 3, 0.5, 0]) + np.random.default_rng(5).normal(size=500)
    best = LinearRegression().fit(X, y)
    for data in (X, sp.csr_matrix(X), pd.DataFrame(X, columns=list("abcdef"))):
        estimator = yoke.LinearRegression().fit(data, y)
        assert estimator.score(data, y) > best.score(X, y) - 1e-3, estimator.score(data, y)
        assert np.abs(estimator.coef_ - best.coef_).max() < 2 and not hasattr(estimator, "classes_")
        again = pickle.loads(pickle.dumps(estimator))
        assert np.array_equal(again.predict(data), estimator.predict(data)) and again.model_.regression
    frame = pd.DataFrame(X, columns=list("abcdef")).assign(price=y, w=np.arange(500) % 4)
    named = yoke.LinearRegression(lr=10, epochs=20).fit(frame, "price", sample_weight="w")
    array = yoke.LinearRegression(lr=10, epochs=20).fit(frame.drop(columns=["price", "w"]), y, sample_weight=frame["w"])
    assert np.allclose(named.predict(frame), array.predict(frame.drop(columns=["price", "w"])), atol=1e-3)
    for kind in (yoke.ClickRegressor(lr=0.5), yoke.NetworkRegressor(lr=0.01)):
        scaled = (y - y.mean()) / y.std()
        assert kind.fit(X, scaled).score(X, scaled) > 0.95, kind
        assert kind.partial_fit(X, scaled).score(X, scaled) > 0.9, kind
    run = yoke.train("linear", (X, y, np.ones(500)), test=(X, y), optimizer="adagrad", lr=10, epochs=50, out="none", progress=False)
    assert run.metrics["r2"] > 0.99 and np.isclose(run.metrics["rmse"] ** 2, run.metrics["loss"], rtol=1e-4)
    assert np.corrcoef(run.predict(X), y)[0, 1] > 0.99


def test_classes_of_partial_fit():
    X, y = blobs()
    raises("needs samples of at least 2 classes, but the data has only one class: 0", lambda: yoke.Network().fit(X, 0 * y))
    raises("`classes` has only one class: 7", lambda: yoke.SoftmaxRegression().partial_fit(X, 0 * y + 7, classes=[7]))
    raises("Only binary classification", lambda: yoke.LogisticRegression().partial_fit(X, y, classes=[0, 1, 2]))


def test_pipeline_and_grid_search():
    from sklearn.model_selection import GridSearchCV
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    X, y = blobs(classes=3)
    pipeline = make_pipeline(StandardScaler(), yoke.SoftmaxRegression())
    # once in this process; once in children that are forked after it has trained
    for jobs in (1, 2):
        import joblib
        with joblib.parallel_backend("multiprocessing" if jobs > 1 else "sequential"):
            search = GridSearchCV(pipeline, {"softmaxregression__lr": [0.01, 0.1], "softmaxregression__epochs": [1, 3]}, cv=2,
                                  n_jobs=jobs).fit(X, y)
        assert search.best_score_ > 0.9, search.best_score_
        assert search.predict(X).shape == y.shape


def test_pickle():
    X, y = blobs()
    for estimator in (yoke.LogisticRegression(), yoke.Network("dense 10, tanh")):
        estimator.fit(X, y)
        again = pickle.loads(pickle.dumps(estimator))
        assert np.array_equal(estimator.predict_proba(X), again.predict_proba(X))
        assert again.get_params() == estimator.get_params()


def test_dataframes_and_names_of_classes():
    import pandas as pd
    X, y = blobs()
    frame = pd.DataFrame(X, columns=list("abcdef"))
    names = pd.Series(np.where(y, "yes", "no"))
    estimator = yoke.LogisticRegression(epochs=10).fit(frame, names)
    assert list(estimator.feature_names_in_) == list("abcdef")
    assert list(estimator.classes_) == ["no", "yes"]
    assert set(estimator.predict(frame)) == {"no", "yes"} and estimator.score(frame, names) > 0.9


def test_csr_is_not_modified():
    X, y = clicks()
    unsorted = X.copy()
    for r in range(X.shape[0]):  # reverse each row
        s = slice(X.indptr[r], X.indptr[r + 1])
        unsorted.indices[s] = X.indices[s][::-1]
    unsorted.has_sorted_indices = False
    results = []
    for matrix, copy in ((X, True), (X, False), (unsorted, True), (sp.csr_matrix(X, dtype=np.float64), True)):
        before = [a.copy() for a in (matrix.data, matrix.indices, matrix.indptr)]
        estimator = yoke.LogisticRegression(epochs=10, lr=0.5, copy=copy).fit(matrix, y)
        assert estimator.score(matrix, y) > 0.9, (copy, estimator.score(matrix, y))
        for a, b in zip(before, (matrix.data, matrix.indices, matrix.indptr)):
            assert np.array_equal(a, b)
        results.append(estimator.predict_proba(matrix))
    assert np.array_equal(results[0], results[3])
    try:
        yoke.LogisticRegression(copy=False).fit(unsorted, y)
    except yoke.UsageError as error:
        assert "ascend" in str(error)
    else:
        raise AssertionError("unsorted rows cannot be used in place")
    bad = X.copy()
    bad.data[5] = np.nan
    try:
        yoke.LogisticRegression().fit(bad, y)
    except ValueError as error:
        assert "row 0" in str(error) and "NaN" in str(error)
    else:
        raise AssertionError("NaN was accepted")


def test_sorted_rows_in_place():
    """Rows in order of their class are not visited in groups of neighbors."""
    X, y = clicks(rows=20000, columns=100)
    order = np.argsort(y, kind="stable")
    for rows in (slice(None), order):
        estimator = yoke.LogisticRegression(epochs=3, lr=0.3, copy=False).fit(X[rows], y[rows])
        assert estimator.score(X, y) > 0.93, estimator.score(X, y)


def test_coefficients_are_those_of_the_predictions():
    X, y = clicks()
    estimator = yoke.LogisticRegression(epochs=3).fit(X, y)
    z = X @ estimator.coef_[0].astype(float) + float(estimator.intercept_[0])
    assert np.allclose(1 / (1 + np.exp(-z)), estimator.predict_proba(X)[:, 1], atol=1e-5)
    assert estimator.coef_.shape == (1, X.shape[1]) and not estimator.coef_.flags.writeable
    many = yoke.SoftmaxRegression(epochs=3).fit(*blobs(classes=4))
    assert many.coef_.shape == (4, 6) and many.intercept_.shape == (4,)


def test_partial_fit_keeps_the_state_of_the_optimizer():
    """50 calls on whole batches are one epoch."""
    X, y = blobs(800)
    C, labels = clicks(800)
    cases = [(yoke.LogisticRegression, 50, {"lr_schedule": "inverse", "lr_decay": 0.01, "warm_up": 7}, C, labels),
             (yoke.SoftmaxRegression, 5, {"lr_schedule": "step", "lr_decay": 0.5, "lr_decay_every": 9, "clip_norm": 0.1}, X, y),
             (yoke.ClickModel, 5, {}, C, labels), (yoke.Network, 5, {}, X, y)]
    for kind, calls, others, data, target in cases:
        for optimizer in ("sgd", "momentum", "nesterov", "adagrad", "rowwise-adagrad", "ftrl", "adam", "adamw"):
            given = {"optimizer": optimizer, "batch": 8, "shuffle": False, "random_state": 3, "lr": 0.02, **others}
            if kind is yoke.LogisticRegression:
                given["l2"] = 1e-3  # sgd decays lazily
            whole = kind(epochs=1, **given).fit(data, target)
            parts = kind(**given)
            for rows in np.array_split(np.arange(800), calls):
                parts.partial_fit(data[rows], target[rows], classes=[0, 1])
            after_fit = kind(epochs=1, **given).fit(data[:400], target[:400]).partial_fit(data[400:], target[400:])
            for other in parts, after_fit:
                apart = max(float(np.abs(a - b).max()) for a, b in zip(whole.model_.tensors().values(), other.model_.tensors().values()))
                assert apart < 1e-6, (kind.__name__, optimizer, apart)
    after_fit.set_params(optimizer="sgd", warm_start=True).fit(X, y)  # which continues with the parameters only
    raises("partial_fit does not support lr_schedule='cosine'", lambda: yoke.Network(lr_schedule="cosine").partial_fit(X, y, [0, 1]))
    parts.set_params(optimizer="sgd").partial_fit(X, y)  # likewise


def test_partial_fit_may_end_during_the_warm_up():
    X, y = blobs()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        estimator = yoke.LogisticRegression(warm_up=10, batch=8, lr=0.01)
        for rows in np.array_split(np.arange(400), 20):
            estimator.partial_fit(X[rows], y[rows], classes=[0, 1])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yoke.LogisticRegression(warm_up=1000, epochs=1).fit(X, y)
    assert "steps of the warm-up" in str(caught[0].message)


def test_partial_fit_keeps_the_standardization():
    X, y = blobs()
    network = yoke.Network("dense 8, relu", standardize="channel").fit(X, y)
    before = network.predict_proba(X)
    network.set_params(lr=0.0).partial_fit(X[:9] / 100, y[:9])
    assert np.array_equal(network.predict_proba(X), before)
    raises("was trained with standardize=\"channel\", not image",
           lambda: network.set_params(standardize="image").partial_fit(X, y))


def test_calls_of_partial_fit_differ():
    """In the order of the rows and in dropout, which random_state determines. A copy without the step takes the first order again."""
    X, y = blobs(100)
    for layers, shuffle, differ in (("dense 8, relu", False, False), ("dense 8, relu", True, True), ("dense 8, relu, dropout 0.5", False, True)):
        one, same = [yoke.Network(layers, optimizer="sgd", lr=0.1, shuffle=shuffle).fit(X, y) for _ in range(2)]
        other = pickle.loads(pickle.dumps(one))
        expected, again, first = [estimator.partial_fit(X, y).predict_proba(X) for estimator in (one, same, other)]
        assert np.array_equal(expected, again) and np.array_equal(expected, first) != differ, (layers, shuffle)


def test_schedules_and_momentum():
    X, y = blobs()
    for given in ({"momentum": 0.5, "optimizer": "nesterov"}, {"lr_schedule": "cosine", "warm_up": 5},
                  {"lr_schedule": "one-cycle", "clip_norm": 1.0}, {"lr_schedule": "plateau", "early_stopping": True}):
        for kind in (yoke.LogisticRegression, yoke.Network):
            assert kind(epochs=3, **given).fit(X, y).score(X, y) > 0.8, given
    raises("no effect without", lambda: yoke.LogisticRegression(momentum=0.5).fit(X, y), yoke.UsageError)


def test_fit_without_intercept():
    from sklearn.linear_model import LinearRegression, LogisticRegression
    X, y = blobs(classes=3)
    target = X @ np.arange(6) + 7
    line = yoke.LinearRegression(fit_intercept=False, epochs=300).fit(X, target)
    assert np.abs(line.coef_ - LinearRegression(fit_intercept=False).fit(X, target).coef_).max() < 0.05
    for data in (X, sp.csr_matrix(X)):
        for kind, labels in ((yoke.LogisticRegression, y % 2), (yoke.SoftmaxRegression, y)):
            estimator = kind(fit_intercept=False, epochs=200, l2=0.01).fit(data, labels)
            best = LogisticRegression(fit_intercept=False, C=1 / (0.01 * len(y)), tol=1e-6).fit(X, labels)
            assert np.abs(estimator.predict_proba(data) - best.predict_proba(X)).max() < 0.03, kind
            assert estimator.intercept_.tolist() == [0] * len(estimator.coef_) and "0.bias" not in estimator.model_.tensors()
            assert np.allclose(estimator.decision_function(np.zeros((1, 6))), 0)
            again = pickle.loads(pickle.dumps(estimator))
            assert np.array_equal(again.predict_proba(data), estimator.predict_proba(data))
            assert again.partial_fit(data, labels).score(data, labels) > 0.8
    raises("no_bias", lambda: yoke.train("dense 3", (X, y), no_bias=True, out="none"), yoke.UsageError)


def test_hashed_columns():
    """Keys of 64 bits, in the same columns as those of yoke.train()."""
    X, y = clicks()
    keys = np.sort(np.random.default_rng(7).integers(0, 2**62, X.shape[1]))
    K = sp.csr_matrix((X.data, keys[X.indices], X.indptr), (X.shape[0], 2**62))
    given = {"batch": 16, "epochs": 3, "lr": 0.1, "optimizer": "sgd", "out": "none", "progress": False}
    run = yoke.train("logreg", (K, y), hash_bits=14, **given)
    hashed = yoke.LogisticRegression(hash_bits=14, epochs=3, lr=0.1).fit(K, y)
    assert np.array_equal(hashed.coef_, run.model.tensors()["0.weight"]) and hashed.coef_.shape == (1, 2**14)
    assert np.array_equal(hashed.predict_proba(K)[:, 1], run.predict_proba(K)[:, -1])
    assert np.allclose(1 / (1 + np.exp(-hashed.decision_function(K))), hashed.predict_proba(K)[:, 1], atol=1e-6)
    assert pickle.loads(pickle.dumps(hashed)).score(K, y) == hashed.score(K, y)
    for kind in (yoke.SoftmaxRegression, yoke.ClickModel, yoke.LinearRegression, yoke.ClickRegressor):
        estimator = kind(hash_bits=14, epochs=10).fit(K, y)
        assert estimator.partial_fit(K, y).score(K, y) > 0.3, kind
        dense = kind(hash_bits=8, epochs=2).fit(X.toarray(), y)  # a column number is a key
        assert np.array_equal(dense.predict(X.toarray()), kind(hash_bits=8, epochs=2).fit(X, y).predict(X)), kind


def test_warm_start():
    X, y = blobs(classes=3)
    names = np.array(["a", "b", "c"])[y]
    for kind, labels in ((yoke.SoftmaxRegression, names), (yoke.Network, names), (yoke.LinearRegression, X[:, 0] * 3)):
        given = {"epochs": 2, "optimizer": "sgd", "lr": 0.01, "shuffle": False}
        twice = kind(warm_start=True, **given).fit(X, labels).fit(X, labels)
        both = kind(**{**given, "epochs": 4}).fit(X, labels)
        cold = kind(**given).fit(X, labels).fit(X, labels)
        for a, b, c in zip(*(e.model_.tensors().values() for e in (twice, both, cold))):
            assert np.abs(a - b).max() < 1e-6 < np.abs(a - c).max(), kind
        raises("features", lambda: twice.fit(X[:, 1:], labels))
    softmax = yoke.SoftmaxRegression(warm_start=True).fit(X, y)
    raises("y has labels that are not in classes", lambda: softmax.fit(X, y + 1))


def test_verbose_and_callback():
    import contextlib
    import io
    X, y = blobs()
    for kind in ESTIMATORS:
        seen, printed = [], io.StringIO()
        with contextlib.redirect_stdout(printed):
            estimator = kind(epochs=5, early_stopping=True, verbose=True,
                             callback=lambda metrics: seen.append(metrics) or metrics["epoch"] >= 3).fit(X, y)
        assert [m["epoch"] for m in seen] == [0, 1, 2, 3] and seen[3]["validation_loss"] > 0, seen
        lines = printed.getvalue().splitlines()
        assert lines[3].startswith("epoch 3, step ") and "train loss" in lines[3] and len(lines) < 6, lines
        assert estimator.summary_["epochs"] <= 3 and estimator.predict(X).shape == y.shape

    def fails(metrics):
        raise RuntimeError("from the callback")
    raises("from the callback", lambda: yoke.LogisticRegression(callback=fails).fit(X, y), RuntimeError)


def test_small_columns():
    """The default learning rate of LinearRegression does not depend on the unit of the columns."""
    from sklearn.datasets import load_diabetes
    X, y = load_diabetes(return_X_y=True, as_frame=True)  # the standard deviations are 0.05
    assert yoke.LinearRegression().fit(X, y).score(X, y) > 0.51  # at best 0.518
    scores = [yoke.LinearRegression().fit(data, y).score(data, y) for data in (X.to_numpy(), 1000 * X.to_numpy())]
    assert np.ptp(scores) < 1e-3 and min(scores) > 0.51, scores


def test_labels_far_from_zero():
    """The default learning rate of the bias of LinearRegression suits the mean of the labels."""
    import pandas as pd
    X = np.random.default_rng(1).normal(size=(1000, 4)).astype(np.float32)
    frame = pd.DataFrame(X, columns=list("abcd"))
    for mean in (-150, 0, 150, 300):
        y = X @ [1, 2, 3, 4] + mean
        for data, table in ((X, None), (frame, None), (frame, {"scale": "standard"})):
            assert yoke.LinearRegression(table=table).fit(data, y).score(data, y) > 0.98, (mean, table)
    assert np.allclose(yoke.LinearRegression().fit(X, np.full(1000, 7)).predict(X[:9]), 7, atol=0.01)
    sparse = yoke.LinearRegression().fit(X, X[:, 0]).set_params(table={"categorical": ["kind"]})  # has no such default
    assert sparse.fit(frame.assign(kind=np.arange(1000) % 3), X[:, 0]).score(frame.assign(kind=1), X[:, 0]) > 0.9


def test_partial_fit_continues():
    X, y = clicks()
    estimator = yoke.LogisticRegression(lr=0.5)
    scores = []
    for _ in range(6):
        scores.append(estimator.partial_fit(X, y, classes=[0, 1]).score(X, y))
    assert scores[-1] > scores[0] and scores[-1] > 0.9, scores
    softmax = yoke.SoftmaxRegression()
    Z, labels = blobs(classes=3)
    softmax.partial_fit(Z[labels < 2], labels[labels < 2], classes=[0, 1, 2])  # class 2 comes later
    softmax.partial_fit(sp.csr_matrix(Z).toarray(), labels)
    assert softmax.predict_proba(Z).shape == (400, 3)
    sparse = yoke.SoftmaxRegression().partial_fit(sp.csr_matrix(Z[labels < 2]), labels[labels < 2], classes=[0, 1, 2])
    assert sparse.predict_proba(sp.csr_matrix(Z)).shape == (400, 3)


def test_click_model_with_fields():
    rng = np.random.default_rng(3)
    a, b = rng.integers(0, 10, (2, 2000))
    index = np.stack([a, 10 + b], axis=1)  # two original columns with ten values each
    X = sp.csr_matrix((np.ones(4000, np.float32), index.ravel(), np.arange(2001) * 2), (2000, 20))
    y = (a + b) % 2  # no single value tells anything
    fields = np.arange(20) // 10
    deep = "embed 4, dense 8, relu, dense 1"
    model = yoke.ClickModel(deep, fields=fields, lr=0.05, epochs=10).fit(X, y)
    assert model.score(X, y) > 0.95, model.score(X, y)
    inputs = {name: t.shape for name, t in model.model_.tensors().items()}
    assert any(shape[-1] == 8 for shape in inputs.values()), inputs  # two fields of four numbers
    again = pickle.loads(pickle.dumps(model))
    assert np.array_equal(again.predict_proba(X), model.predict_proba(X))
    assert abs(model.model_.evaluate(X, y)["accuracy"] - model.score(X, y)) < 1e-6
    plain, threaded = (yoke.ClickModel("fm:4", lr=0.1, epochs=20, threads=t).fit(X, y) for t in (1, 2))  # needs no fields
    assert plain.score(X, y) > 0.95 and np.array_equal(plain.predict_proba(X), threaded.predict_proba(X))
    run = yoke.train(deep, (X, y), (X, y), fields=fields, lr=0.05, epochs=10, batch=16, out="none")
    assert run.summary["test_accuracy"] > 0.95 and (run.predict(X) == y).mean() > 0.95
    by_position = yoke.ClickModel(deep, lr=0.05, epochs=10).fit(X, y)  # all rows have two entries, in separate ranges
    assert abs(by_position.score(X, y) - model.score(X, y)) < 1e-6
    assert np.array_equal(by_position.predict_proba(X), model.predict_proba(X))
    assert by_position.model_.evaluate(X, y)["accuracy"] == model.model_.evaluate(X, y)["accuracy"]
    ragged = X.copy()
    ragged[3, (a[3] + 1) % 10] = 1.0
    one = yoke.ClickModel(deep, fields=np.zeros(20, int), lr=0.05).fit(ragged, y)
    assert one.model_.tensors()["network.0.weight"].shape == (8, 4)
    run.model.fields = None
    for words, act in (("a row has 3 entries", lambda: yoke.ClickModel(deep).fit(ragged, y)),
                       ("in Python, fields=", lambda: yoke.train("deepfm:2", (ragged, y), out="none")),
                       ("row 3: a row has 3 entries instead of 2", lambda: by_position.predict(ragged)),
                       ("trained on 2 fields, but the matrix has no field numbers", lambda: run.predict(X)),
                       ("integer array of shape (20,), one per column, not int64 of shape (3,)",
                        lambda: yoke.ClickModel(deep, fields=fields[:3]).fit(X, y)),
                       ("field numbers must be from 0 to 65535", lambda: yoke.ClickModel(deep, fields=fields - 1).fit(X, y)),
                       ("only CSR matrices have fields", lambda: yoke.train(deep, (X.toarray(), y), fields=fields, out="none")),
                       ("other data has its own", lambda: yoke.train(deep, "synth:ctr", fields=fields, out="none"))):
        try:
            act()
        except ValueError as error:
            assert words in str(error), error
        else:
            raise AssertionError(words)
    run.model.fields = fields * 2
    try:
        run.predict(X)
    except yoke.DataError as error:
        assert "field 2, but the model was trained on 2 fields" in str(error), error


def test_dense_and_sparse_rows_mix():
    """A model that was trained on an array takes CSR matrices, and the other way round."""
    X, y = clicks(2000, 100)
    Z, z = X.toarray()[:, :30], np.arange(2000) % 3
    for estimator, rows, labels in ((yoke.LogisticRegression(lr=1.0), X, y), (yoke.SoftmaxRegression(), sp.csr_matrix(Z), z)):
        sparse, dense = estimator.fit(rows, labels), clone(estimator).fit(rows.toarray(), labels)
        for model in (sparse, dense):
            expected = model.predict_proba(rows if model is sparse else rows.toarray())
            for other in (rows, rows.toarray()):
                assert np.allclose(model.predict_proba(other), expected, atol=1e-6)
                model.partial_fit(other[:16], labels[:16], classes=np.unique(labels))
                expected = model.predict_proba(rows if model is sparse else rows.toarray())


def test_defaults_fit_small_data():
    """150 rows of iris need more than a few passes."""
    from sklearn.datasets import load_iris
    from sklearn.preprocessing import scale
    X, y = load_iris(return_X_y=True)
    for estimator in (yoke.SoftmaxRegression(), yoke.Network()):
        assert estimator.fit(scale(X), y).score(scale(X), y) > 0.94
        assert estimator.summary_["steps"] >= 1000
    assert yoke.SoftmaxRegression(epochs=2).fit(X, y).summary_["epochs"] == 2


def test_decision_function():
    X, y = blobs()
    Z, z = blobs(classes=3)
    binary = (yoke.LogisticRegression().fit(X, y), yoke.SoftmaxRegression().fit(sp.csr_matrix(X), y))
    for model, rows in zip(binary, (X, sp.csr_matrix(X))):
        odds = model.decision_function(rows)
        assert odds.shape == y.shape and np.allclose(1 / (1 + np.exp(-odds)), model.predict_proba(rows)[:, 1], atol=1e-5)
    scores = yoke.SoftmaxRegression().fit(Z, z).decision_function(Z)
    assert scores.shape == (400, 3) and (scores.argmax(axis=1) == z).mean() > 0.8
    assert np.allclose(np.exp(binary[0].predict_log_proba(X)), binary[0].predict_proba(X), atol=1e-6)


def test_predictions_do_not_depend_on_row_order_or_alignment():
    """They are bit-identical. Those of X @ coef.T would not be: BLAS treats the last rows differently."""
    random = np.random.default_rng(0)
    for columns, classes in ((3, 2), (17, 3), (9000, 2)):
        X = random.normal(size=(53, columns)).astype(np.float32)
        y = np.arange(53) % classes
        order = random.permutation(53)
        elsewhere = np.empty(X.size + 1, np.float32)[1:].reshape(X.shape)
        elsewhere[:] = X[order]
        for kind in (yoke.LogisticRegression, yoke.SoftmaxRegression)[classes > 2:]:
            for rows, moved in ((X, elsewhere), (sp.csr_matrix(X), sp.csr_matrix(elsewhere))):
                model = kind(epochs=2).fit(rows, y)
                again = kind(epochs=2).fit(rows.copy(), y)
                assert np.array_equal(model.coef_, again.coef_) and np.array_equal(model.intercept_, again.intercept_)
                for f in (model.decision_function, model.predict_proba):
                    assert np.array_equal(f(rows)[order], f(moved))
                    assert np.array_equal(f(rows)[:1], f(rows[:1])) and np.array_equal(f(rows)[-1:], f(rows[-1:]))


def test_fit_does_not_warn_that_the_host_is_busy():
    """Each fit of GridSearchCV would; yoke.train warns."""
    from yoke._train import Training
    summary = {"warnings": [{"kind": "busy_host", "text": "busy"}, {"kind": "label_leak", "text": "leak"}]}
    training = Training(None, ignored=("busy_host",))
    training.warned = ["busy", "leak", "other"]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        training._warn_late(summary)
    assert [str(w.message) for w in caught] == ["leak", "other"]


def test_network_on_images():
    """[rows][height][width] and [rows][channels][height][width]; bytes are pixels; layers as text and as a list."""
    rng = np.random.default_rng(3)
    y = rng.integers(0, 2, 300)
    images = rng.integers(0, 60, (300, 8, 8), np.uint8)
    images[y == 1, 2:6, 2:6] += 150
    for layers in ("conv 4 3x3, relu, maxpool 2, dense 8, relu", ["conv 4 3x3", "relu", "dense 2"]):
        for X in (images, images[:, None], (images / 255).astype(np.float32)):
            network = yoke.Network(layers, epochs=4, lr=0.01).fit(X, y)
            assert network.score(X, y) > 0.95, (layers, X.shape, network.score(X, y))
    faint = images // 8  # the deviation of an image is below 1 / 8
    network = yoke.Network("dense 8, relu", standardize="image", epochs=4).fit(faint, y)
    np.testing.assert_allclose(network.predict_proba((faint / 255).astype(np.float32)), network.predict_proba(faint), atol=1e-5)
    try:
        yoke.Network((100,)).fit(images, y)
    except ValueError as error:
        assert "must be a string or a list of strings" in str(error)
    flat = images.reshape(300, -1)
    assert yoke.Network("conv 4 3x3, relu", image=(1, 8, 8), epochs=4, lr=0.01).fit(flat, y).score(flat, y) > 0.95


def test_shapes_of_images():
    rng = np.random.default_rng(3)
    X, y = rng.random((60, 8, 8, 3), np.float32), np.arange(60) % 2
    words = "looks like [rows][height][width][channels]"
    raises(words, lambda: yoke.Network().fit(X, y), yoke.UsageError)
    raises(words, lambda: yoke.train("softmax", (X, y), out="none"), yoke.UsageError)
    forced = yoke.Network("conv 2 3x3 same, relu", image=(8, 8, 3), epochs=1).fit(X, y)
    assert forced.predict(X).shape == (60,)
    images = X.transpose(0, 3, 1, 2)
    network = yoke.Network("conv 2 3x3, relu", epochs=1).fit(images, y)
    assert network.predict(images).shape == network.predict(images.reshape(60, -1)).shape == (60,)
    raises("(3, 4, 16), (channels, height, width), but the network was trained on images of shape (3, 8, 8)",
           lambda: network.predict(images.reshape(60, 3, 4, 16)), yoke.UsageError)
    raises("but image is (1, 8, 24)", lambda: yoke.Network(image=(1, 8, 24)).fit(images, y), yoke.UsageError)
    raises("the data has 192 columns, but images of 1x4x4", lambda: yoke.Network(image=(1, 4, 4)).fit(images.reshape(60, -1), y))
    raises("0 sample(s)", lambda: network.predict(images[:0]))
    raises("the array has shape (60, 2, 2, 2, 24); expected [rows][columns]", lambda: yoke.Network().fit(X.reshape(60, 2, 2, 2, 24), y))
    for image in ((8, 8), 5, (1, 8, -8), (1.5, 8, 8), "8x8"):
        raises("must be (channels, height, width)", lambda: yoke.Network(image=image).fit(images, y), yoke.UsageError)
    raises("layers=None: must be a string or a list", lambda: yoke.Network(None).fit(images, y), yoke.UsageError)


def test_duplicate_entries_are_summed():
    X, y = clicks(500, 40)
    split = sp.csr_matrix((np.repeat(X.data / 2, 2), np.repeat(X.indices, 2), 2 * X.indptr), X.shape)  # each entry twice
    for model in (yoke.ClickModel("fm:4", epochs=3), yoke.LogisticRegression(epochs=3)):
        model.fit(split, y)
        assert np.allclose(model.predict_proba(split), model.predict_proba(X), atol=1e-5), model
    assert split.nnz == 2 * X.nnz
    raises("X.sum_duplicates()", lambda: yoke.LogisticRegression(copy=False).fit(split, y), yoke.UsageError)


def test_asynchronous_workers():
    X, y = clicks()
    assert yoke.LogisticRegression(epochs=10, lr=0.5, mode="async", workers=2).fit(X, y).score(X, y) > 0.85


def test_early_stopping():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(300, 40)).astype(np.float32), rng.integers(0, 2, 300)
    y[:200] = X[:200, 0] > 0  # overfits soon
    for make in (lambda **o: yoke.LogisticRegression(lr=0.5, batch=20, **o), lambda **o: yoke.Network("dense 30, relu", **o),
                 lambda **o: yoke.ClickModel("fm:4", batch=20, **o)):
        model = make(epochs=100, early_stopping=True, validation_fraction=0.3, n_iter_no_change=4).fit(X, y)
        s = model.summary_
        assert s["stopped_early"] and 0 < s["best_step"] < s["steps"], s
        steps = s["best_step"]
        whole = make(epochs=100, early_stopping=True, validation_fraction=0.3, n_iter_no_change=1000)
        assert not whole.fit(X, y).summary_["stopped_early"]
        assert whole.summary_["best_step"] >= steps
        if whole.summary_["best_step"] == steps:  # the best model is kept, not the last one
            assert np.array_equal(model.predict_proba(X), whole.predict_proba(X))
    raises("early_stopping", lambda: model.partial_fit(X, y, classes=[0, 1]))
    raises("n_iter_no_change=0: must be at least 1", lambda: make(early_stopping=True, n_iter_no_change=0).fit(X, y), yoke.UsageError)
    raises("validation_fraction", lambda: make(early_stopping=True, validation_fraction=1e-6).fit(X, y), yoke.Error)
    run = yoke.train("logreg", (X[:200], y[:200]), epochs=30, validation=(X[200:], y[200:]), out="none", progress=False, lr=0.5)
    curve = run.curves["validation_loss"][1:]
    assert abs(run.summary["validation_loss"] - curve.min()) < 1e-6 and curve.argmin() < len(curve) - 1
    p = np.clip(run.predict_proba(X[200:])[np.arange(100), y[200:]], 1e-7, 1)
    assert abs(-np.log(p).mean() - curve.min()) < 1e-4


def test_errors_have_the_text_of_the_program():
    X, y = blobs()
    try:
        yoke.LogisticRegression(optimizer="sdg").fit(X, y)
    except yoke.UsageError as error:
        assert "sdg" in str(error) and isinstance(error, ValueError)
    else:
        raise AssertionError("no error")


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    main(globals())
