#!/usr/bin/env python3
"""Check a page of `fangorn report` in a browser, without a network.

The page is opened in headless Chromium on a wide screen and on a phone, on a light and on a dark ground, and printed.
The script fails where the console says something, the page asks for anything but itself, a section has no picture, a
picture has no size, a text reaches out of its picture, or the page is wider than the screen.

It needs Chromium (`apt-get install chromium` on Debian) and the Python package playwright, which drives it.

Example:
  fangorn report model.ubj --rows rows.csv -o report.html
  python3 tests/report/check.py report.html --screenshots /tmp
"""

import argparse
import pathlib
import shutil
import sys

from playwright.sync_api import sync_playwright

SECTIONS = ["importances", "summary", "dependence", "row", "shape"]
SCREENS = {"wide": (1280, 900), "phone": (360, 740)}

LOOK = """() => {
  const problems = [];
  const wide = document.documentElement.scrollWidth, room = document.documentElement.clientWidth;
  if (wide > room) problems.push(`the page is ${wide} pixels wide, the screen ${room}`);
  for (const svg of document.querySelectorAll('svg')) {
    const what = svg.getAttribute('aria-label'), box = svg.getBoundingClientRect();
    if (box.width < 100 || box.height < 20) problems.push(`${what}: ${box.width} x ${box.height} pixels`);
    for (const shape of svg.querySelectorAll('text,rect,circle,path,line')) {
      const inner = shape.getBoundingClientRect();
      const across = Math.max(box.left - inner.left, inner.right - box.right);
      const out = Math.max(across, box.top - inner.top, inner.bottom - box.bottom);
      if (out > 2) problems.push(`${what}: ${shape.tagName} ${shape.textContent} reaches ${out.toFixed(1)} pixels out`);
    }
    if (/NaN|inf/i.test(svg.innerHTML.replace(/<title>.*?<\\/title>|<text.*?<\\/text>/g, '')))
      problems.push(`${what}: a coordinate is no number`);
  }
  const ground = getComputedStyle(document.body).backgroundColor, ink = getComputedStyle(document.body).color;
  if (ground === ink) problems.push('text has the colour of its ground');
  const sections = Object.fromEntries([...document.querySelectorAll('section')].map(
    section => [section.id, section.querySelectorAll('svg').length]));
  return {problems, sections, scripts: document.scripts.length};
}"""


def look(browser, page_file, screen, scheme, screenshots):
    problems = []
    context = browser.new_context(
        viewport={"width": SCREENS[screen][0], "height": SCREENS[screen][1]}, color_scheme=scheme, offline=True
    )
    page = context.new_page()
    url = page_file.resolve().as_uri()
    page.on("console", lambda message: problems.append(f"the console says: {message.text}"))
    page.on("pageerror", lambda error: problems.append(f"an error: {error}"))
    page.on("dialog", lambda dialog: problems.append(f"a dialog: {dialog.message}"))
    page.on("request", lambda request: request.url != url and problems.append(f"a request: {request.url}"))
    page.goto(url)
    found = page.evaluate(LOOK)
    problems += found["problems"]
    if found["scripts"]:
        problems.append(f"{found['scripts']} scripts")
    for section in SECTIONS:
        if not found["sections"].get(section):
            problems.append(f"the section {section} has no picture")
    if screenshots:
        page.screenshot(path=screenshots / f"{page_file.stem}-{screen}-{scheme}.png", full_page=True)
    if screen == "wide" and scheme == "light":
        size = len(page.pdf(format="A4", print_background=True))
        if size < 10_000:
            problems.append(f"printed, the page has {size} bytes")
    context.close()
    return [f"{screen}, {scheme}: {problem}" for problem in problems]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pages", nargs="+", type=pathlib.Path, help="pages of fangorn report")
    parser.add_argument("--chromium", default=shutil.which("chromium") or shutil.which("chromium-browser"))
    parser.add_argument("--screenshots", type=pathlib.Path, help="a folder for pictures of the pages")
    args = parser.parse_args()
    problems = []
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=args.chromium, args=["--no-sandbox"])
        for page in args.pages:
            for screen in SCREENS:
                for scheme in ("light", "dark"):
                    found = look(browser, page, screen, scheme, args.screenshots)
                    problems += [f"{page}: {problem}" for problem in found]
        browser.close()
    print("\n".join(problems) or f"{len(args.pages)} pages, nothing wrong")
    sys.exit(bool(problems))


if __name__ == "__main__":
    main()
