// Package conformance tests this project's host with the golden cases of package tck, and writes
// docs/conformance.md from the cases and the catalogues in tck/cases/catalogue. [Host] also runs
// the test conversations of single modules, which have the same format.
package conformance
