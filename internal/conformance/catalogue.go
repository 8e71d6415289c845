package conformance

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/agent-runner/agent-runner/internal/golden"
)

// A Catalogue lists the behaviors of another system, each with a verdict on this project's
// behavior. Its file is tck/cases/catalogue/NAME.txt:
//
//	origin: the name of the system and the source of the behaviors
//	25  | same           | messages that state hooks append stay in the state
//	26b | better         | changing a message does not change the caller's | reason why this project is better
//	87  | same           | run-local values last | | eino-85-run-local
//	30  | not applicable | title of the behavior | reason why it does not apply here
//
// The golden cases of a row are named NAME-ID-…. The last column names further cases. Lines that
// begin with # are comments.
type Catalogue struct {
	Name   string // prefix of the names of the catalogue's cases
	Origin string
	Rows   []Row
}

// A Row is one behavior of another system.
type Row struct {
	ID      string
	Verdict string // Same, Better or NotApplicable
	Title   string
	Why     string   // the reason for the verdict; empty if the verdict is Same
	Cases   []string // the golden cases that show the behavior, sorted
}

// The verdicts.
const (
	Same          = "same"
	Better        = "better"
	NotApplicable = "not applicable"
)

// Own is the prefix of the names of cases that test only rules of this project.
const Own = "own"

var rowID = regexp.MustCompile(`^[A-Za-z]*[0-9]+[a-z]?$`)

// Catalogues reads the catalogues of a folder of cases, sorted by name, and sets the cases of each
// row. It returns an error if an applicable row has no case, or if a case belongs to no row.
func Catalogues(folder string, cases []*golden.Case) ([]*Catalogue, error) {
	paths, err := filepath.Glob(filepath.Join(folder, "catalogue", "*.txt"))
	if err != nil {
		return nil, err
	}
	var out []*Catalogue
	for _, path := range paths {
		c, err := readCatalogue(path)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		out = append(out, c)
	}
	return out, link(out, cases)
}

func readCatalogue(path string) (*Catalogue, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	c := &Catalogue{Name: strings.TrimSuffix(filepath.Base(path), ".txt")}
	for _, l := range golden.Lines(b) {
		if origin, ok := strings.CutPrefix(l, "origin: "); ok {
			c.Origin = origin
			continue
		}
		r, err := parseRow(l)
		if err != nil {
			return nil, fmt.Errorf("%q: %w", l, err)
		}
		if slices.ContainsFunc(c.Rows, func(o Row) bool { return o.ID == r.ID }) {
			return nil, fmt.Errorf("row %s is duplicated", r.ID)
		}
		c.Rows = append(c.Rows, r)
	}
	if c.Origin == "" {
		return nil, fmt.Errorf("want a line \"origin: …\"")
	}
	return c, nil
}

func parseRow(line string) (Row, error) {
	f := strings.Split(line, "|")
	for i := range f {
		f[i] = strings.TrimSpace(f[i])
	}
	if len(f) < 3 || len(f) > 5 {
		return Row{}, fmt.Errorf("want \"ID | verdict | what it is about | why | other cases\"; the last two may be left out")
	}
	f = append(f, "", "")
	r := Row{ID: f[0], Verdict: f[1], Title: f[2], Why: f[3], Cases: strings.Fields(strings.ReplaceAll(f[4], ",", " "))}
	switch {
	case !rowID.MatchString(r.ID):
		return r, fmt.Errorf("%q is no ID; want letters and a number, as in A12 or 26b", r.ID)
	case !slices.Contains([]string{Same, Better, NotApplicable}, r.Verdict):
		return r, fmt.Errorf("%q is no verdict; want same, better or not applicable", r.Verdict)
	case r.Title == "":
		return r, fmt.Errorf("say what it is about")
	case r.Why == "" && r.Verdict != Same:
		return r, fmt.Errorf("say why it is %s", r.Verdict)
	case r.Verdict == NotApplicable && len(r.Cases) > 0:
		return r, fmt.Errorf("what is not applicable has no cases")
	}
	return r, nil
}

// link sets the cases of the rows. It returns an error if an applicable row has no case, if a case
// belongs to no row, or if a row names a hook or an event that its cases do not have.
func link(catalogues []*Catalogue, cases []*golden.Case) error {
	known := map[string]*golden.Case{}
	for _, c := range cases {
		known[c.Name] = c
		if err := linkCase(catalogues, c.Name); err != nil {
			return err
		}
	}
	for _, c := range catalogues {
		for i := range c.Rows {
			r := &c.Rows[i]
			for _, name := range r.Cases {
				if known[name] == nil {
					return fmt.Errorf("row %s %s: there is no case %s", c.Name, r.ID, name)
				}
			}
			if r.Verdict != NotApplicable && len(r.Cases) == 0 {
				return fmt.Errorf(
					"row %s %s (%s) has no golden case; write %s-%s-….txtar, or name one in its last column",
					c.Name,
					r.ID,
					r.Title,
					c.Name,
					r.ID,
				)
			}
			slices.Sort(r.Cases)
			r.Cases = slices.Compact(r.Cases)
			if err := checkClaim(r, known); err != nil {
				return fmt.Errorf("row %s %s: %w", c.Name, r.ID, err)
			}
		}
	}
	return nil
}

func linkCase(catalogues []*Catalogue, name string) error {
	origin, rest, _ := strings.Cut(name, "-")
	id, _, _ := strings.Cut(rest, "-")
	if origin == Own {
		return nil
	}
	for _, c := range catalogues {
		if c.Name != origin {
			continue
		}
		i := slices.IndexFunc(c.Rows, func(r Row) bool { return r.ID == id })
		switch {
		case i < 0:
			return fmt.Errorf("case %s: catalogue/%s.txt has no row %s", name, origin, id)
		case c.Rows[i].Verdict == NotApplicable:
			return fmt.Errorf("case %s shows row %s, which catalogue/%s.txt says is not applicable", name, id, origin)
		}
		c.Rows[i].Cases = append(c.Rows[i].Cases, name)
		return nil
	}
	return fmt.Errorf(
		"case %s: there is no catalogue/%s.txt; name it ORIGIN-ROW-what, or %s-what for a rule of this project alone",
		name,
		origin,
		Own,
	)
}
