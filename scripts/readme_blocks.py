# SPDX-License-Identifier: MIT
"""readme_blocks.py - the parts of README.md and README.zh-TW.md that come from the sources and the lab, and a check that
both pages say the same.

The Chinese for a text of the sources is in scripts/zh-TW.json.  A text without an entry stays English, and is reported; an entry
that is no longer needed is an error.
"""
import gzip
import json
import os
import re
import sys

TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path += [os.path.join(TOP, "lab"), os.path.join(TOP, "tests")]
import engines  # noqa: E402 - found by the line above
import judge  # noqa: E402
import reading  # noqa: E402
import view  # noqa: E402

PAGES = {"README.md": "en", "README.zh-TW.md": "zh-TW"}
PEERS = ("nginx, tuned", "nginx, default", "lighttpd", "h2o", "Apache, tuned", "Caddy")
OURS, COST = "epoll", "cpu_us"
NEW = "1 KiB, a connection for each request"
WORDS = {
    "en": {
        "heads": ("engine", "model", "idea", "use it when"),
        "numbers": """zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen
                      nineteen twenty""".split(),
        "counts": {"engines": r"\bNUMBER(?= engines, from one blocking loop)", "files": r"\bNUMBER(?= files\b)"},
        "auto": "`--engine auto`, the default, takes `{first}` where it can run and the other options fit it, else `{second}`,\n"
                "and says which and why when rung starts ([decision 011](docs/decisions/011-what-auto-chooses.md)).",
        "lead": "Processor time for a request, relative to `epoll` (median and 95 % interval), {scenario}, 1 KiB each:",
        "scenario": {"20 connections": "with 20 connections kept open", "400 connections": "with 400 connections kept open",
                     NEW: "with a new connection for each request"},
        "same": "**No significant difference**: {names}.",
        "less": "**Less** than `epoll`: {names}.",
        "more": "**More** than `epoll`: {names}.",
        "unknown": "**Undecided**: {names}.",
        "comma": ", ",
        "peers": {"nginx, tuned": "tuned nginx", "nginx, default": "nginx as Debian ships it", "Apache, tuned": "tuned Apache"},
        "origin": "- {machine}; commit {commit}; `{command}`, {rounds} rounds, {when}.",
    },
    "zh-TW": {
        "heads": ("引擎", "模型", "做法", "適用時機"),
        "numbers": "零 一 二 三 四 五 六 七 八 九 十 十一 十二 十三 十四 十五 十六 十七 十八 十九 二十".split(),
        "counts": {"engines": "NUMBER(?=種引擎)", "files": "NUMBER(?=份檔案)"},
        "auto": "預設的 `--engine auto`，於 `{first}` 可運作且與其他選項相容時選擇 `{first}`，否則選擇 `{second}`，\n"
                "並於 rung 啟動時告知選擇與原因 ([決策 011](docs/decisions/011-what-auto-chooses.md))。",
        "lead": "每筆請求所需的處理器時間，以 `epoll` 為 1 (中位數與 95 % 信賴區間)，{scenario}，每份檔案 1 KiB：",
        "scenario": {"20 connections": "20 條 keep-alive 連線", "400 connections": "400 條 keep-alive 連線", NEW: "每筆請求都另建連線"},
        "same": "**無顯著差異**：{names}。",
        "less": "比 `epoll` **少**：{names}。",
        "more": "比 `epoll` **多**：{names}。",
        "unknown": "**未定**：{names}。",
        "comma": "、",
        "peers": {"nginx, tuned": "調校後的 nginx", "nginx, default": "Debian 預設的 nginx", "Apache, tuned": "調校後的 Apache"},
        "origin": "- {machine}；commit {commit}；`{command}`，{rounds} 輪，{when}。",
    },
}


class Wrong(Exception):
    """A message for people: why make docs cannot write the pages."""


def text_of(path):
    with open(os.path.join(TOP, path), encoding="utf-8") as file:
        return file.read()


class Chinese:
    """The translations; an object remembers which were needed, and which are missing."""

    def __init__(self):
        self.known, self.used, self.missing = json.loads(text_of("scripts/zh-TW.json")), set(), []

    def of(self, text, language):
        if language == "en":
            return text
        self.used.add(text)
        if text not in self.known:
            self.missing.append(text)
        return self.known.get(text, text)

    def unused(self):
        return sorted(set(self.known) - self.used)


# --- Engines ------------------------------------------------------------------------------------------------

def engine_table(language, chinese):
    heads = WORDS[language]["heads"]
    lines = ["| " + " | ".join(heads) + " |", "|---" * len(heads) + "|"]
    for row in engines.rows():
        cells = (chinese.of(part, language) for part in (row.model, row.summary, row.use))
        lines.append(f"| [`{row.name}`](engines/{row.name}.c) | {' | '.join(cells)} |")
    order = re.search(r"\} preferred\[\] = \{\n(.*?)\n\};", text_of("server/choose.c"), re.DOTALL)[1]
    first, second = re.findall(r"^    \{\"(\w+)\"", order, re.MULTILINE)[:2]
    return [*lines, "", WORDS[language]["auto"].format(first=first, second=second)]


def counted(page, text, files):
    """The page with the numbers, in words, of engines that have sockets, and of files to read first."""
    numbers = WORDS[PAGES[page]]["numbers"]
    for count, what in ((sum(row.serves for row in engines.rows()), "engines"), (files, "files")):
        pattern = WORDS[PAGES[page]]["counts"][what].replace("NUMBER", f"(?i:{'|'.join(sorted(numbers, key=len, reverse=True))})")
        if len(re.findall(pattern, text)) != 1:
            raise Wrong(f"{page} has no place for the number of {what} (or several): {pattern}")
        text = re.sub(pattern, lambda found, count=count: numbers[count].capitalize() if found[0][0].isupper() else numbers[count], text)
    return text


# --- Figures of the lab -------------------------------------------------------------------------------------

def result_of(name):
    with gzip.open(os.path.join(TOP, f"lab/results/{name}.json.gz"), "rt", encoding="utf-8") as file:
        return reading.read(json.load(file), os.path.join(TOP, "lab", "experiments"))


def verdict(found):
    if not found.sure:
        return "unknown"
    return "same" if not found.differs() else "less" if found.high < 1 else "more"


def interval(found):
    return f"{view.amount(found.median)} ({view.amount(found.low)}..{view.amount(found.high)})"


def sentences(result, scenario, language):
    """One sentence for the peers that cost the same, one for those that cost less, one for those that cost more."""
    words, found = WORDS[language], {}
    for peer in PEERS:
        if ratio := judge.ratio(result, peer, OURS, scenario, COST):
            found.setdefault(verdict(ratio), []).append(f"{words['peers'].get(peer, peer)} {interval(ratio)}")
    yield words["lead"].format(scenario=words["scenario"][scenario])
    yield ""
    for kind in ("same", "less", "more", "unknown"):
        if kind in found:
            yield "- " + words[kind].format(names=words["comma"].join(found[kind]))
    yield ""


def origin(result, language):
    return WORDS[language]["origin"].format(machine=view.machine(result), commit=result["commit"], command=result["command"],
                                            rounds=view.rounds(result), when=view.when(result))


def figures(language, _chinese):
    result, beside = result_of("engines"), result_of("nginx")
    words = WORDS[language]
    lines = [line for scenario in words["scenario"] for line in sentences(beside if scenario == NEW else result, scenario, language)]
    return [*lines, origin(result, language), origin(beside, language)]


MAKERS = {"engines": engine_table, "figures": figures}


# --- The Chinese of Taiwan ----------------------------------------------------------------------------------

MAINLAND = """進程 線程 內核 內存 字節 服務器 並發 隊列 調度 系統調用 端口 數據 信息 文件 性能 函數 指針 接口 默認 支持 緩存 網絡 程序 軟件 硬件
              超時 死鎖 響應 拷貝 數組 鏈表 哈希 遍歷 變量 實現 異步 質量 優化 調試 用戶態 套接字 多路復用 協程 帶寬 磁盤 字符串""".split()


def foreign(text):
    """Words that are not used in Taiwan, and Latin letters or digits that touch a Chinese character."""
    yield from (word for word in MAINLAND if word in text)
    prose = re.sub(r"\]\([^)]*\)", "]", text)
    yield from (found[0] for found in re.finditer(r"[\u4e00-\u9fff][A-Za-z0-9]|[A-Za-z0-9][\u4e00-\u9fff]", prose))


# --- Both pages say the same --------------------------------------------------------------------------------

def followed(place):
    """The English page that a Chinese page says it follows (scripts/follows), without a section; other places as they are."""
    if not place.startswith("docs/zh-TW/"):
        return place
    found = re.search(r"<!-- follows (\S+) ", text_of(place.partition("#")[0]))
    return found[1] if found else place


def shape(text):
    """The parts of a page that must be alike: levels of headings, commands, pictures, links, marks, tables."""
    prose = re.sub(r"(?s)```.*?```", "", text)
    return {
        "headings": [len(level) for level in re.findall(r"(?m)^(#+) ", prose)],
        "commands": [re.split(r"\s+#\s", line)[0].strip() for line in re.findall(r"(?m)^ {4}(\S.*)$", text)],
        "pictures": re.findall(r"docs/[\w/.-]+\.(?:png|svg)", text),
        "places": sorted(set(map(followed, re.findall(r"\]\((?!#|README)([^)]+)\)", text)))),
        "marks": re.findall(r"<!-- /?\w+ -->", text),
        "tables": [line.count("|") for line in re.findall(r"(?m)^\|.*$", re.sub(r"\\\|", "", text))],
    }


def unlike():
    """A sentence for each difference between the pages."""
    shapes = {page: shape(text_of(page)) for page in PAGES}
    first, *others = shapes
    for page in [page for page, language in PAGES.items() if language == "zh-TW"]:
        yield from (f"{page}: '{word}': see MAINLAND and foreign() in scripts/readme_blocks.py" for word in foreign(text_of(page)))
    for page in others:
        for what, ours in shapes[first].items():
            theirs = shapes[page][what]
            if ours != theirs:
                odd = [one for one in ours if one not in theirs] + [one for one in theirs if one not in ours]
                yield f"{page}: its {what} are not those of {first}: {odd[:3] or 'their order'}"
