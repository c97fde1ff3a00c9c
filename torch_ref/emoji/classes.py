"""Twelve classes of things, made of the Unicode emoji subgroups."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class ObjectClass:
    """Subcategories of the catalogue, without the members that look like something else."""

    subcategories: tuple[str, ...]
    without: frozenset[str] = field(default_factory=frozenset)


def _class(subcategories: str, without: str = "") -> ObjectClass:
    return ObjectClass(tuple(subcategories.split()), frozenset(without.split()))


# The order gives the labels. `without` has the short names of the catalogue.
CLASSES = {
    "mammal": _class("animal-mammal", without="feet pig_nose"),
    "bird_bug": _class("animal-bird animal-bug", without="feather wing spider_web microbe"),
    "fruit_veg": _class("food-fruit food-vegetable"),
    "meal": _class("food-prepared food-asian", without="egg salt butter sweet_potato"),
    "vehicle": _class(
        "transport-ground transport-air transport-water",
        without="busstop station traffic_light vertical_traffic_light construction rotating_light "
        "octagonal_sign wheel oil_drum motorway railway_track fuelpump skateboard roller_skate "
        "seat satellite parachute ring_buoy anchor",
    ),
    "building": _class(
        "place-building place-religious",
        without="building_construction statue_of_liberty bricks rock wood",
    ),
    "clock": _class("time", without="hourglass hourglass_flowing_sand"),
    "clothing": _class(
        "clothing",
        without="school_satchel purse handbag pouch shopping_bags lipstick ring gem prayer_beads "
        "folding_hand_fan hair_pick",
    ),
    "face": _class(
        "face-smiling face-affection face-tongue face-hand face-neutral-skeptical face-sleepy "
        "face-unwell face-hat face-glasses face-concerned face-negative",
        without="skull skull_and_crossbones",
    ),
    "hand": _class(
        "hand-fingers-open hand-fingers-partial hand-single-finger hand-fingers-closed hands "
        "hand-prop",
        without="selfie",
    ),
    "heart": _class("heart", without="love_letter"),
    "arrow": _class("arrow"),
}

VARIATION_SELECTOR = "fe0f"  # asks for colour; the sets write it or leave it out
VARIANTS = {"1f3fb", "1f3fc", "1f3fd", "1f3fe", "1f3ff", "2640", "2642"}  # skin tones, genders


def codepoint(unified: str) -> str:
    """One spelling for all sets: '2764-FE0F' is '2764'."""
    parts = unified.lower().split("-")
    return "-".join(part for part in parts if part != VARIATION_SELECTOR)


def identities(catalogue: list[dict[str, Any]]) -> dict[str, dict[str, str]]:
    """class -> code point -> short name, sorted; no second one for a skin tone or gender."""
    found = {}
    for name, group in CLASSES.items():
        members = {
            codepoint(entry["unified"]): entry["short_name"]
            for entry in catalogue
            if entry["subcategory"] in group.subcategories
            and entry["short_name"] not in group.without
        }
        found[name] = {
            code: members[code] for code in sorted(members) if not VARIANTS & set(code.split("-"))
        }
    return found


def common(found: Mapping[str, Mapping[str, str]], *drawn: set[str]) -> dict[str, list[str]]:
    """class -> code points that every domain has drawn."""
    everywhere = set.intersection(*drawn)
    return {name: [code for code in codes if code in everywhere] for name, codes in found.items()}
