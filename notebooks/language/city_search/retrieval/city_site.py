"""The site that is crawled: real pages of agencies and states, and those of two invented
cities.

The data stop at states. So the cities, their pages and every change from one day to the next
are this book's own, and each such text says so.
"""

from crawling import Page, pdf_of

from .gov_faq import Faq, page

STATES = {"Northwick": "Vermont", "Southwick": "Kansas"}
FEDERAL = {"CDC", "FDA", "ECDC", "BMG"}
OURS = "Written for this book."
KINDS = {"csv": "text/csv; charset=utf-8", "pdf": "application/pdf"}
OPEN = Faq("When is the library open?", f"Monday to Friday, 9 to 5. {OURS}", "", "", "", "", "")
TRASH = OPEN._replace(
    question="When is trash picked up?", answer=f"On Mondays before noon. {OURS}"
)
PARADE = OPEN._replace(
    question="Which roads are closed for the parade?",
    answer=f"Main Street is closed on the first of May from 8 to 4. {OURS}",
)
PERMIT = OPEN._replace(
    question="How do I get a building permit?",
    answer=f"Bring two copies of the plan to the town hall. {OURS}",
)
NAMED = "/northwick/{}.html"


def ours(one: Faq) -> bytes:
    """A page of an invented city."""
    link = f"https://northwick.example/{len(one.question)}"
    told = one._replace(html=f"<p>{one.answer}</p>", source="Northwick", link=link)
    return page([told._replace(date="2020-04-20")])


def first_day(rows: list[Faq]) -> dict[str, Page]:
    """The site's pages by path: one for each address in the data, the cities' in three kinds,
    a list of all, and the rules for robots.
    """
    by: dict[tuple, list[Faq]] = {}
    for row in rows:
        by.setdefault((row.source, row.link), []).append(row)
    made = {
        f"/{source.lower()}/{number}.html": Page(page(own))
        for number, ((source, _), own) in enumerate(by.items())
    }
    made |= {
        NAMED.format("library"): Page(ours(OPEN)),
        NAMED.format("trash"): Page(ours(TRASH)),
        NAMED.format("permits"): Page(ours(PERMIT)),
        NAMED.format("parade"): Page(ours(PARADE), until="2020-05-01"),
        "/northwick/pool.pdf": Page(
            pdf_of(["The pool is open from June to August, 10 to 6.", OURS]), KINDS["pdf"]
        ),
        "/southwick/faq.csv": Page(
            f"question,answer\nWhen is trash picked up?,On Thursdays. {OURS}\n"
            f"How do I pay my water bill?,Online or at the town hall. {OURS}\n".encode(),
            KINDS["csv"],
        ),
    }
    links = "".join(f'<a href="{path}">{path}</a> ' for path in [*made, "/private/staff.html"])
    rule = '<html><meta name="robots" content="noindex">'  # links alone answer nothing
    made["/"] = Page(f"{rule}<body><h1>All pages</h1><p>{links}</p></body></html>".encode())
    made["/private/staff.html"] = Page(ours(OPEN))
    made["/robots.txt"] = Page(b"User-agent: *\nDisallow: /private/\n", "text/plain")
    return made


def next_day(pages: dict[str, Page]) -> None:
    """What the city does until the next visit: new hours, a page that moves, one that goes."""
    later = OPEN._replace(answer=f"Tuesday to Saturday, 10 to 6. {OURS}")
    pages[NAMED.format("library")] = Page(ours(later))
    pages[NAMED.format("waste")] = pages[NAMED.format("trash")]
    pages[NAMED.format("trash")] = Page(b"", status=301, moved=NAMED.format("waste"))
    pages[NAMED.format("permits")] = Page(b"gone", status=410)


def about(url: str) -> dict[str, str]:
    """Whose page it is, by its path: no page can say that it is another's."""
    own = url.split("/", 3)[-1].split("/")[0]
    if own.upper() in FEDERAL:
        return {"city": "", "state": "", "source": own.upper()}
    own = own.title()
    city = own if own in STATES else ""
    return {"city": city, "state": STATES.get(own, own), "source": own}
