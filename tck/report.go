package tck

import (
	"encoding/xml"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/agent-runner/agent-runner/internal/golden"
)

// A Report contains the results of all cases. Its JSON form is for programs.
type Report struct {
	Host      string   `json:"host"`
	Transport string   `json:"transport"`
	Passed    int      `json:"passed"`
	Failed    int      `json:"failed"`
	Skipped   int      `json:"skipped"`
	Results   []Result `json:"results"`
}

// A Result is the result of one case.
type Result struct {
	Name        string       `json:"name"`
	About       string       `json:"about"`
	Status      string       `json:"status"`                // "passed", "failed" or "skipped"
	Reason      string       `json:"reason,omitempty"`      // why the case was skipped, or could not be compared
	Missing     []string     `json:"missing,omitempty"`     // capabilities that a skipped case needs and the host lacks
	Differences []Difference `json:"differences,omitempty"` // differences of a failed case
	TimeMS      int64        `json:"time_ms"`
}

// A Difference is one part of a case in which the host differs from the case's expectation.
type Difference struct {
	// Part is the part of the case's file, such as "events custom" or "request 2". It is "start" if
	// the host did not build an agent that must run. Got is then the host's reason.
	Part string `json:"part"`
	Want string `json:"want"`
	Got  string `json:"got"`
}

// The values of Result.Status.
const (
	passed  = "passed"
	failed  = "failed"
	skipped = "skipped"
)

func (r *Report) add(result Result) {
	switch result.Status {
	case passed:
		r.Passed++
	case failed:
		r.Failed++
	case skipped:
		r.Skipped++
	}
	r.Results = append(r.Results, result)
}

// WriteText writes the failed cases with their differences, the number of skipped cases for each
// reason, and a line with the totals. If the host lacks several capabilities for a case, the case
// counts for each of them.
func (r *Report) WriteText(w io.Writer) error {
	var b strings.Builder
	reasons := map[string]int{}
	for _, result := range r.Results {
		switch {
		case result.Status == failed:
			fmt.Fprintf(&b, "FAIL %s\n%s\n", result.Name, indent(result.text()))
		case result.Missing != nil:
			for _, name := range result.Missing {
				reasons["the host lacks "+name]++
			}
		case result.Status == skipped:
			reasons[result.Reason]++
		}
	}
	for _, reason := range slices.Sorted(maps.Keys(reasons)) {
		fmt.Fprintf(&b, "SKIP %3d: %s\n", reasons[reason], printable(reason))
	}
	fmt.Fprintf(&b, "host %q, %s modules: %d passed, %d failed, %d skipped\n",
		r.Host, r.Transport, r.Passed, r.Failed, r.Skipped)
	_, err := io.WriteString(w, b.String())
	return err
}

// text describes a failure: the differences, or the reason why the case could not be compared.
func (r *Result) text() string {
	if len(r.Differences) == 0 {
		return printable(r.About + "\n" + r.Reason)
	}
	var b strings.Builder
	b.WriteString(r.About + "\n")
	for _, d := range r.Differences {
		b.WriteString(golden.Difference(d).String())
	}
	return printable(strings.TrimSuffix(b.String(), "\n"))
}

func indent(s string) string { return "     " + strings.ReplaceAll(s, "\n", "\n     ") }

// printable replaces characters that a terminal or an XML reader would interpret: control
// characters, except line breaks and tabs, U+FFFE and U+FFFF. It also replaces invalid UTF-8.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' && r != '\n' && r != '\t' || r >= 0x7f && r < 0xa0 || r == 0xfffe || r == 0xffff {
			return utf8.RuneError
		}
		return r
	}, s)
}

// WriteJUnit writes the report in the format of JUnit, which most CI systems read.
func (r *Report) WriteJUnit(w io.Writer) error {
	suite := junitSuite{Name: "tck " + r.Transport + " " + printable(r.Host), Tests: len(r.Results),
		Failures: r.Failed, Skipped: r.Skipped}
	for _, result := range r.Results {
		c := junitCase{Name: result.Name, Class: "tck", Seconds: fmt.Sprintf("%.3f", float64(result.TimeMS)/1000)}
		switch result.Status {
		case failed:
			c.Failure = &junitText{Message: result.About, Text: result.text()}
		case skipped:
			c.Skipped = &junitText{Message: printable(result.Reason)}
		}
		suite.Cases = append(suite.Cases, c)
	}
	if _, err := io.WriteString(w, xml.Header); err != nil {
		return err
	}
	e := xml.NewEncoder(w)
	e.Indent("", "  ")
	return e.Encode(suite)
}

type junitSuite struct {
	XMLName  xml.Name    `xml:"testsuite"`
	Name     string      `xml:"name,attr"`
	Tests    int         `xml:"tests,attr"`
	Failures int         `xml:"failures,attr"`
	Skipped  int         `xml:"skipped,attr"`
	Cases    []junitCase `xml:"testcase"`
}

type junitCase struct {
	Name    string     `xml:"name,attr"`
	Class   string     `xml:"classname,attr"`
	Seconds string     `xml:"time,attr"`
	Failure *junitText `xml:"failure"`
	Skipped *junitText `xml:"skipped"`
}

type junitText struct {
	Message string `xml:"message,attr"`
	Text    string `xml:",chardata"`
}
