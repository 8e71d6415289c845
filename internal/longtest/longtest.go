// Package longtest marks the tests that load the machine or wait for seconds. make test skips them;
// make check runs them.
package longtest

import (
	"os"
	"testing"
)

// variable is the environment variable that make sets for the targets that run long tests.
const variable = "AGENT_RUNNER_LONG_TESTS"

// Enabled reports whether AGENT_RUNNER_LONG_TESTS is set, for tests that have a long form.
func Enabled() bool { return os.Getenv(variable) != "" }

// Skip skips the test unless AGENT_RUNNER_LONG_TESTS is set.
func Skip(t testing.TB) {
	t.Helper()
	if !Enabled() {
		t.Skip("a long test: set " + variable + "=1, as make check does")
	}
}
