package e2e

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

var (
	recordName  = regexp.MustCompile(`^(\d{3})-[a-z0-9-]+\.md$`)
	recordRow   = regexp.MustCompile(`(?m)^\| (\d{3}) \| \[(.+)\]\(rationale/(.+)\) \| (.+) \| (in force|superseded by (\d{3})) \|$`)
	recordState = regexp.MustCompile(`^- Status: (?:in force|superseded by \[(\d{3})\]\(\d{3}-[a-z0-9-]+\.md\))$`)
)

// maxRecordLines is how long a decision record may be. A longer one is two decisions,
// or has measurements that belong in e2e/bench/results.
const maxRecordLines = 60

// TestDecisionRecords holds the form of decision records (kernel/rationale) and of
// their index: what a reader finds in one, they find in each.
func TestDecisionRecords(t *testing.T) {
	index, err := os.ReadFile("../kernel/RATIONALE.md")
	if err != nil {
		t.Fatal(err)
	}
	type row struct{ title, file, decision, superseded string }
	rows := map[string]row{}
	for _, m := range recordRow.FindAllStringSubmatch(string(index), -1) {
		if _, twice := rows[m[1]]; twice {
			t.Errorf("the index has %s twice", m[1])
		}
		rows[m[1]] = row{m[2], m[3], m[4], m[6]}
	}
	if lines := strings.Count(string(index), "](rationale/"); lines != len(rows) {
		t.Errorf("the index links %d records, of which %d have the form of a row", lines, len(rows))
	}
	files, err := filepath.Glob("../kernel/rationale/*")
	if err != nil {
		t.Fatal(err)
	}
	if len(files) < 150 {
		t.Fatalf("%d records; the test looks at the wrong place", len(files))
	}
	seen := map[string]bool{}
	for _, file := range files {
		name := filepath.Base(file)
		m := recordName.FindStringSubmatch(name)
		if m == nil {
			t.Errorf("%s: a record is named NNN-title.md", name)
			continue
		}
		number := m[1]
		if seen[number] {
			t.Errorf("%s: another record has this number", name)
		}
		seen[number] = true
		r, indexed := rows[number]
		if !indexed || r.file != name {
			t.Errorf("%s is not in the index (kernel/RATIONALE.md has %q)", name, r.file)
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, fault := range recordFaults(number, r.title, r.superseded, string(text)) {
			t.Errorf("%s: %s", name, fault)
		}
	}
	for number, r := range rows {
		if !seen[number] {
			t.Errorf("the index has %s (%s), which is no file", number, r.file)
		}
		if r.superseded != "" && (r.superseded == number || !seen[r.superseded]) {
			t.Errorf("%s is superseded by %s, which is no other record", number, r.superseded)
		}
	}
}

// recordFaults is what a record lacks. superseded is the number of the record that the
// index says replaces it, or empty.
func recordFaults(number, title, superseded, text string) []string {
	var faults []string
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	if len(lines) > maxRecordLines {
		faults = append(faults, "longer than 60 lines: split it, or move measurements to e2e/bench/results")
	}
	if len(lines) < 6 || lines[0] != "# "+number+". "+title {
		return append(faults, "the first line is not \"# "+number+". "+title+"\", as in the index")
	}
	if m := recordState.FindStringSubmatch(lines[2]); m == nil {
		faults = append(faults, "the third line is not \"- Status: in force\" or \"- Status: superseded by [NNN](…)\"")
	} else if m[1] != superseded {
		faults = append(faults, "its status is not that of the index")
	}
	date, found := strings.CutPrefix(lines[3], "- Date: ")
	if _, err := time.Parse(time.DateOnly, date); !found || err != nil {
		faults = append(faults, "the fourth line is not \"- Date: YYYY-MM-DD\"")
	}
	if !strings.Contains(text, "\n**Decision.** ") {
		faults = append(faults, "no paragraph begins with **Decision.**")
	}
	return faults
}

// TestDecisionRecordsThatAreRefused makes each fault that TestDecisionRecords looks for.
func TestDecisionRecordsThatAreRefused(t *testing.T) {
	const good = "# 007. Why?\n\n- Status: in force\n- Date: 2026-11-21\n\n**Decision.** So.\n"
	if faults := recordFaults("007", "Why?", "", good); len(faults) != 0 {
		t.Errorf("a record in form is refused: %v", faults)
	}
	for old, new := range map[string]string{
		"007":            "008",
		"Why?":           "How?",
		"in force":       "unclear",
		"- Date: ":       "",
		"2026-11-21":     "yesterday",
		"**Decision.** ": "",
		"So.":            "So." + strings.Repeat("\n", maxRecordLines),
		"in force\n":     "superseded by [009](009-better.md)\n",
	} {
		if faults := recordFaults("007", "Why?", "", strings.Replace(good, old, new, 1)); len(faults) == 0 {
			t.Errorf("with %q in place of %q nothing is refused", new, old)
		}
	}
}

// anchorLink is a link to a heading of a file.
var anchorLink = regexp.MustCompile(`\]\(([^)#:]*)#([^)]+)\)`)

// TestDecisionRecordsMeasurements follows the links of records to measurements.
func TestDecisionRecordsMeasurements(t *testing.T) {
	results, err := os.ReadFile("bench/results/README.md")
	if err != nil {
		t.Fatal(err)
	}
	cited := map[string]bool{}
	files, err := filepath.Glob("../kernel/rationale/*.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range anchorLink.FindAllStringSubmatch(string(text), -1) {
			if m[1] != "../../e2e/bench/results/README.md" {
				continue
			}
			cited[m[2]] = true
			if !strings.Contains(string(results), "\n## "+m[2]+"\n") {
				t.Errorf("%s: there is no measurement %s", filepath.Base(file), m[2])
			}
		}
	}
	for _, line := range strings.Split(string(results), "\n") {
		if subject, ok := strings.CutPrefix(line, "## "); ok && !cited[subject] {
			t.Errorf("no record refers to the measurement %s", subject)
		}
	}
}
