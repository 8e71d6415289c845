package builtin

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/host/tool"
	"github.com/agent-runner/agent-runner/internal/contract"
	"github.com/agent-runner/agent-runner/internal/jsoncodec"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// one returns the tool with the given name. File tools read below dir.
func one(t testing.TB, name, dir string) tool.Tool {
	t.Helper()
	tools, err := Set(&Options{Root: dir, Tools: []string{name}})
	require.NoError(t, err)
	return tools[0]
}

// ask calls a tool and returns the text of its result. If the result is an error, the text begins
// with "ERROR".
func ask(t testing.TB, tl tool.Tool, arguments string) string {
	t.Helper()
	res, err := tl.Call(t.Context(), abi.Call{Name: tl.Declaration().Name, Arguments: arguments})
	require.NoError(t, err)
	if res.IsError {
		return "ERROR " + res.Content.String()
	}
	return res.Content.String()
}

func args(format string, a ...any) string { return fmt.Sprintf(format, a...) }

func TestSet(t *testing.T) {
	t.Parallel()
	names := func(tools []tool.Tool) (names []string) {
		for _, tl := range tools {
			names = append(names, tl.Declaration().Name)
		}
		return names
	}
	tools, err := Set(&Options{Root: t.TempDir()})
	require.NoError(t, err)
	require.Equal(t, Names(), names(tools))

	tools, err = Set(&Options{})
	require.NoError(t, err)
	require.Equal(t, []string{nameTime, nameCalculator}, names(tools), "no root, no file tools")

	tools, err = Set(&Options{Tools: []string{nameCalculator, nameTime}})
	require.NoError(t, err)
	require.Equal(t, []string{nameCalculator, nameTime}, names(tools))

	tools, err = Set(&Options{Tools: []string{}})
	require.NoError(t, err)
	require.Empty(t, tools)

	for want, o := range map[string]*Options{
		`there is no built-in tool "calculatr"; did you mean calculator?`:           {Tools: []string{"calculatr"}},
		`there is no built-in tool "shell" (there are time, calculator, list_files`: {Tools: []string{"shell"}},
		`built-in tool "read_file" needs a root`:                                    {Tools: []string{nameReadFile}},
		`built-in tool "time" is chosen twice`:                                      {Tools: []string{nameTime, nameTime}},
		`root "/does/not/exist": no such file or directory`:                         {Root: "/does/not/exist"},
		`root "builtin_test.go" is not a directory`:                                 {Root: "builtin_test.go"},
	} {
		_, err := Set(o)
		require.ErrorContains(t, err, want)
	}
}

func TestDeclarations(t *testing.T) {
	t.Parallel()
	tools, err := Set(&Options{Root: t.TempDir()})
	require.NoError(t, err)
	for _, tl := range tools {
		d := tl.Declaration()
		require.NoError(t, contract.CheckTool(&d))
		require.NoError(t, jsoncodec.Valid(d.Parameters), d.Name)
		require.Equal(t, d.Name != nameTime, d.Idempotent, d.Name)
		require.NotEmpty(t, d.Description, d.Name)

		var schema jsonschema.Schema
		require.NoError(t, json.Unmarshal(d.Parameters, &schema), d.Name)
		_, err := schema.Resolve(nil)
		require.NoError(t, err, d.Name)
		require.Equal(t, "object", schema.Type, d.Name)
		require.NotNil(t, schema.AdditionalProperties, "%s takes what it does not know", d.Name)
		for name, property := range schema.Properties {
			require.NotEmpty(t, property.Description, "%s.%s", d.Name, name)
			// Every property of the schema is an argument: a value of a wrong type is rejected with
			// the argument's name.
			res, err := tl.Call(t.Context(), abi.Call{Arguments: args(`{%q: {}}`, name)})
			require.NoError(t, err)
			require.True(t, res.IsError)
			require.Contains(t, res.Content.String(), name+": want", d.Name)
		}
		// Every argument is a property of the schema.
		known := strings.TrimSuffix(strings.SplitAfter(ask(t, tl, `{"?":1}`), "the arguments are ")[1], ")")
		for _, name := range strings.Split(known, ", ") {
			require.Contains(t, schema.Properties, name, d.Name)
		}
	}
}

func TestArguments(t *testing.T) {
	t.Parallel()
	read := one(t, nameReadFile, t.TempDir())
	for arguments, want := range map[string]string{
		``:                         `ERROR the argument "path" is missing`,
		`{}`:                       `ERROR the argument "path" is missing`,
		`{"file":"a"}`:             `ERROR there is no argument "file" (the arguments are limit, offset, path)`,
		`{"pat":"a"}`:              `ERROR there is no argument "pat"; did you mean "path"? (the arguments are limit, offset, path)`,
		`{"path":1}`:               `ERROR the arguments are wrong: path: want a string, got a number (at byte 8)`,
		`{"path":"a","path":"b"}`:  `ERROR the arguments are wrong: path: key "path" is duplicated (at byte 18)`,
		`{"Path":"a"}`:             `ERROR the arguments are wrong: Path: key "Path" differs from "path" in case only (at byte 8)`,
		`{"path":"a"`:              `ERROR the arguments are wrong: path: want , or } in an object (at byte 11)`,
		`"a"`:                      `ERROR the arguments are wrong: want an object, got a string (at byte 0)`,
		`{"path":"a","limit":0}`:   `ERROR limit is 0; it must be from 1 to 2000`,
		`{"path":"a","offset":-1}`: `ERROR offset is -1; it must be from 1 to 2147483647`,
	} {
		require.Equal(t, want, ask(t, read, arguments), arguments)
	}
}

func TestCanceled(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, dir, "a.txt", "a")
	ctx, cancel := context.WithCancelCause(t.Context())
	cause := fmt.Errorf("enough of it")
	cancel(cause)
	for name, arguments := range map[string]string{
		nameListFiles:   `{}`,
		nameReadFile:    `{"path":"a.txt"}`,
		nameSearchFiles: `{"pattern":"a"}`,
		nameCalculator:  `{"expression":"(1)"}`,
	} {
		_, err := one(t, name, dir).Call(ctx, abi.Call{Arguments: arguments})
		require.ErrorIs(t, err, cause, name)
	}
}

func TestTime(t *testing.T) {
	t.Parallel()
	zone := time.FixedZone("XST", -3*3600-1800)
	tools, err := Set(&Options{Clock: func() time.Time { return time.Date(2024, 2, 29, 23, 30, 5, 7, zone) }})
	require.NoError(t, err)
	clock := tools[0]
	for arguments, want := range map[string]string{
		``:                            "2024-02-29T23:30:05-03:30 (Thursday, 29 February 2024, 23:30:05, XST)",
		`{"zone":"UTC"}`:              "2024-03-01T03:00:05Z (Friday, 1 March 2024, 03:00:05, UTC)",
		`{"zone":"Europe/Berlin"}`:    "2024-03-01T04:00:05+01:00 (Friday, 1 March 2024, 04:00:05, CET)",
		`{"zone":"Asia/Kathmandu"}`:   "2024-03-01T08:45:05+05:45 (Friday, 1 March 2024, 08:45:05, +0545)",
		`{"zone":"Mars/Olympus"}`:     `ERROR there is no time zone "Mars/Olympus"; give a name of the IANA database, such as Europe/Berlin, America/New_York or UTC`,
		`{"zone":"Local"}`:            `ERROR there is no time zone "Local"; give a name of the IANA database, such as Europe/Berlin, America/New_York or UTC`,
		`{"zone":"../../etc/passwd"}`: `ERROR there is no time zone "../../etc/passwd"; give a name of the IANA database, such as Europe/Berlin, America/New_York or UTC`,
	} {
		require.Equal(t, want, ask(t, clock, arguments), arguments)
	}
}
