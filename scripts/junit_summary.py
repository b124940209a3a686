"""Prints "PASSED FAILED SKIPPED" of a JUnit report by ctest, and why tests were skipped (on standard error)."""
import sys
import xml.etree.ElementTree as ElementTree

suite = ElementTree.parse(sys.argv[1]).getroot()
failed = skipped = 0
reasons = {}
for case in suite.iter("testcase"):
    status = case.get("status")
    if status == "fail":
        failed += 1
    elif status != "run":
        skipped += 1
        output = case.findtext("system-out") or ""
        lines = [line.strip() for line in output.splitlines() if "needs " in line]
        reason = lines[0] if lines else status
        reasons.setdefault(reason, []).append(case.get("name"))
for reason, names in sorted(reasons.items()):
    print(f"skipped: {len(names)} ({', '.join(names[:3])}{', ...' if len(names) > 3 else ''}): {reason}", file=sys.stderr)
print(int(suite.get("tests")) - failed - skipped, failed, skipped)
