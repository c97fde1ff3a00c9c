"""Class orders of the benchmarks, and the lists, heads and banks that are held to them."""

import json

import numpy as np
import pytest
from safetensors.numpy import save_file

from ms_biaten.spec.bank import Bank, check_bank
from ms_biaten.spec.benchmarks import BENCHMARKS
from ms_biaten.spec.debug import debug_source
from ms_biaten.spec.errors import UserError
from ms_biaten.spec.lists import read_list
from ms_biaten.spec.loading import load_config
from ms_biaten.spec.orders import FOLDER, ORDERS, class_order, known_orders, order_of
from ms_biaten.spec.weights import class_order_fault, load_heads

# Numbers in the file names of the published 126-class lists (real_067_...jpg), less one.
DOMAINNET_LABELS = {
    "aircraft_carrier": 0,
    "cello": 66,
    "cell_phone": 67,
    "teddy-bear": 303,
    "The_Eiffel_Tower": 308,
    "tiger": 311,
    "umbrella": 328,
    "zebra": 343,
}
# Labels in published lists, of DINE and of CDAN.
OFFICE_HOME_LABELS = {"alphabetical": {"Pan": 40, "TV": 63}, "lists": {"Drill": 0, "Marker": 64}}


@pytest.mark.parametrize("name", known_orders())
def test_an_order_has_every_class_once(name):
    classes = class_order(name)
    assert len(set(classes)) == len(classes) == BENCHMARKS[name.split("/")[0]].class_count
    assert order_of(classes) == name
    assert order_of(classes[::-1]) is None


def test_every_file_is_a_known_order():
    files = {p.relative_to(FOLDER).with_suffix("").as_posix() for p in FOLDER.rglob("*.txt")}
    assert files == set(known_orders())


def test_orders_of_one_benchmark_hold_the_same_things():
    for benchmark in ("domainnet", "office_home"):
        first, *others = (class_order(name) for name in known_orders(benchmark))
        assert all(set(other) == set(first) for other in others)
        assert class_order(f"{benchmark}/folders") == tuple(sorted(first))
        assert class_order(benchmark) == first


def test_labels_are_those_of_published_lists():
    lists = class_order("domainnet/lists")
    assert {name: lists.index(name) for name in DOMAINNET_LABELS} == DOMAINNET_LABELS
    assert list(lists) == sorted(lists, key=lambda n: n.lower().replace("_", "").replace("-", ""))
    for order, labels in OFFICE_HOME_LABELS.items():
        classes = class_order(f"office_home/{order}")
        assert {name: classes.index(name) for name in labels} == labels


def test_an_unknown_order_names_the_known():
    for name in ("office_home/list", "officehome", "office_home/", "../office_home/lists"):
        with pytest.raises(UserError, match=r"known: domainnet/lists, .*office_home/lists"):
            class_order(name)


# -- lists ------------------------------------------------------------------------------------


def listed(root, lines):
    for line in filter(None, lines):
        path = root / line.split()[0]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    (root / "list.txt").write_text("\n".join(lines))
    return root / "list.txt", root


def test_a_list_in_another_known_order_is_told_which(tmp_path):
    path, root = listed(tmp_path, ["Art/Drill/1.jpg 0", "", "Art/Bottle/1.jpg 2"])
    assert read_list(path, root, class_order("office_home/lists")).labels == (0, 2)
    with pytest.raises(UserError) as caught:
        read_list(path, root, class_order("office_home"))
    message = str(caught.value)
    assert "list.txt, line 1: label 0 is class 'Alarm_Clock'" in message
    assert "in folder 'Drill'" in message
    assert message.endswith("pass --classes office_home/lists")


def test_a_list_in_no_known_order_is_told_where(tmp_path):
    path, root = listed(tmp_path, ["bed/1.jpg 0", "", "sofa/1.jpg 0"])
    with pytest.raises(UserError, match=r"line 3: label 0 is class 'bed', .* folder 'sofa'; pass"):
        read_list(path, root, ("bed", "sofa"))


def test_folders_that_are_no_classes_say_nothing(tmp_path):
    path, root = listed(tmp_path, ["day1/a.jpg 1", "sofa/b.jpg 1", "sofa/deep/c.jpg 0", "d.jpg 0"])
    assert read_list(path, root, ("bed", "sofa")).labels == (1, 1, 0, 0)


# -- banks and heads --------------------------------------------------------------------------


def office_bank(classes):
    return Bank("dslr", ("amazon", "webcam"), classes, ("a",) * 40, np.zeros((40, 2, 8), "f4"))


@pytest.mark.parametrize("name", known_orders("office_caltech"))
def test_a_bank_in_a_known_order_fits(name):
    config = load_config("office_caltech", target="dslr", overrides=["model.raw_width=8"])
    check_bank(office_bank(class_order(name)), config, 10, "bank")


def test_a_bank_in_an_unknown_order_is_refused():
    config = load_config("office_caltech", target="dslr", overrides=["model.raw_width=8"])
    *first, mug, projector = class_order("office_caltech/office31")
    classes = (*first, projector, mug)
    with pytest.raises(UserError) as caught:
        check_bank(office_bank(classes), config, 10, "bank")
    message = str(caught.value)
    assert "no known order of office_caltech (office_caltech/plain, " in message
    assert "class 8 is 'projector', in office_caltech/office31 'mug'" in message


def test_own_data_has_no_known_order():
    assert "own" not in ORDERS
    config = load_config("own", target="dslr")
    check_bank(office_bank(("a", "b")), config, 2, "bank")


def test_heads_in_another_known_order_are_told_both():
    one, other = class_order("office_home/lists"), class_order("office_home")
    message = class_order_fault(one, other, "the bank")
    assert "(office_home/lists): class 0 is 'Drill' there and 'Alarm_Clock' in the bank" in message
    assert "(office_home/alphabetical); extract with --classes office_home/lists" in message


@pytest.mark.parametrize("stored", ["{", "3", json.dumps([1, 2])])
def test_metadata_that_is_no_list_of_classes_is_told(tmp_path, stored):
    save_file(debug_source("dawn"), tmp_path / "dawn.safetensors", {"classes": stored})
    with pytest.raises(UserError, match="not a JSON list of names"):
        load_heads(tmp_path, ["dawn"], [f"class_{c}" for c in range(7)], 48, 16)
