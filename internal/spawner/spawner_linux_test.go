package spawner

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/agent-runner/agent-runner/internal/jail"
	"github.com/agent-runner/agent-runner/internal/procgroup"
)

func TestMain(m *testing.M) {
	if IsChild() {
		os.Exit(Main())
	}
	goleak.VerifyTestMain(m)
}

// commands writes a list of commands in YAML to a file, and returns what ReadCommands reads from it.
func commands(t *testing.T, yaml string) []Command {
	t.Helper()
	path := filepath.Join(t.TempDir(), "commands.yaml")
	require.NoError(t, os.WriteFile(path, []byte(yaml), 0o600))
	list, err := ReadCommands(path)
	require.NoError(t, err)
	return list
}

// start starts a spawner for a list of commands in YAML, and closes it when the test ends.
func start(t *testing.T, yaml string) *Client {
	t.Helper()
	c, err := Start(commands(t, yaml), os.Getenv)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return c
}

// running is a started command with the test's ends of its standard streams.
type running struct {
	procgroup.Child
	in, out *os.File
	stderr  *os.File
}

func run(t *testing.T, c *Client, command ...string) (*running, error) {
	t.Helper()
	var childFiles, parentFiles [3]*os.File
	for i := range childFiles {
		r, w, err := os.Pipe()
		require.NoError(t, err)
		childFiles[i], parentFiles[i] = w, r
		if i == 0 {
			childFiles[i], parentFiles[i] = r, w
		}
		defer childFiles[i].Close()
		t.Cleanup(func() { parentFiles[i].Close() })
	}
	child, err := c.Start(command, childFiles[0], childFiles[1], childFiles[2])
	return &running{child, parentFiles[0], parentFiles[1], parentFiles[2]}, err
}

// output runs a command without input, requires that it succeeds, and returns its standard output.
func output(t *testing.T, c *Client, command ...string) string {
	t.Helper()
	p, err := run(t, c, command...)
	require.NoError(t, err)
	require.NoError(t, p.in.Close())
	b, err := io.ReadAll(p.out)
	require.NoError(t, err)
	said, err := io.ReadAll(p.stderr)
	require.NoError(t, err)
	require.NoError(t, p.Wait(), "%s", said)
	return string(b)
}

func alive(t *testing.T, pid int) bool {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
		return false
	}
	require.NoError(t, err)
	return !strings.Contains(string(b), ") Z")
}

func eventuallyDead(t *testing.T, pid int) {
	t.Helper()
	require.Eventually(t, func() bool { return !alive(t, pid) }, time.Minute, 5*time.Millisecond)
}

// TestEnvironment checks that a command has the listed directory and environment, and none of the
// server's keys, and that the spawner's environment is empty.
func TestEnvironment(t *testing.T) {
	t.Setenv("OPENAI_API_KEY", "sk-secret")
	t.Setenv("PASSED", "passed on")
	c := start(t, `
commands:
- {command: [env], env: {MODE: fast}, pass_env: [PASSED, UNSET]}
- {command: pwd}
- {command: cat}
`)
	env := output(t, c, "env")
	require.Contains(t, env, "MODE=fast\n")
	require.Contains(t, env, "PASSED=passed on\n")
	require.Contains(t, env, "PATH="+os.Getenv("PATH")+"\n")
	require.NotContains(t, env, "sk-secret")
	require.NotContains(t, env, "UNSET")
	require.Equal(t, c.commands[1].Dir+"\n", output(t, c, "pwd"))

	spawner, err := os.ReadFile("/proc/" + strconv.Itoa(c.cmd.Process.Pid) + "/environ")
	require.NoError(t, err)
	require.Empty(t, spawner)

	p, err := run(t, c, "cat")
	require.NoError(t, err)
	_, err = p.in.WriteString("hello")
	require.NoError(t, err)
	require.NoError(t, p.in.Close())
	b, err := io.ReadAll(p.out)
	require.NoError(t, err)
	require.Equal(t, "hello", string(b))
	require.NoError(t, p.Wait())
}

// TestProfile checks that a command can access only the files and ports of its profile and the
// files of the system, and that an unconfined command has no such limits.
func TestProfile(t *testing.T) {
	if jail.Support().Missing() != "" {
		t.Skip("the kernel lacks", jail.Support().Missing())
	}
	dir := t.TempDir()
	for _, name := range []string{"secret", "readable", "writable"} {
		require.NoError(t, os.Mkdir(filepath.Join(dir, name), 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(dir, name, "f"), []byte(name), 0o600))
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	_, port, err := net.SplitHostPort(l.Addr().String())
	require.NoError(t, err)
	script := func(port string) string {
		return fmt.Sprintf(`
cd %s
for d in secret readable writable; do
	cat $d/f 2>/dev/null && echo " is read"
	(echo changed > $d/g) 2>/dev/null && echo "$d is written"
done
cat /etc/shadow >/dev/null 2>&1 && echo "shadow is read"
cat /proc/$PPID/environ >/dev/null 2>&1 && echo "environment is read"
kill -0 $PPID 2>/dev/null && echo "spawner is signaled"
(exec 3<>/dev/tcp/127.0.0.1/%s) 2>/dev/null && echo connected
kill -0 $$ && ls /usr >/dev/null && echo done`, dir, port)
	}
	list := fmt.Sprintf(`
commands:
- {command: [bash, -c, %q], read: [%[2]s/readable], write: [%[2]s/writable]}
- {command: [bash, -c, %[3]q], connect: [1]}
- {command: [bash, -c, %[4]q], unconfined: true}
`, script(port), dir, script(port)+"\n", script(port)+"\n\n")
	c := start(t, list)
	require.Equal(
		t,
		"readable is read\nwritable is read\nwritable is written\nconnected\ndone\n",
		output(t, c, c.commands[0].Args...),
	)
	require.Equal(t, "done\n", output(t, c, c.commands[1].Args...))
	free := output(t, c, c.commands[2].Args...)
	for _, reached := range []string{"secret is read", "secret is written", "spawner is signaled", "connected"} {
		require.Contains(t, free, reached)
	}
}

// TestOnlyListed checks that a command starts only with exactly the arguments of the list.
func TestOnlyListed(t *testing.T) {
	c := start(t, "commands: [{command: [echo, one]}]")
	require.Equal(t, "one\n", output(t, c, "echo", "one"))
	for _, command := range [][]string{{"echo"}, {"echo", "two"}, {"echo", "one", "two"}, {"/bin/echo", "one"}, nil} {
		require.False(t, c.Allows(command))
		_, err := run(t, c, command...)
		require.ErrorContains(t, err, "not in the list")
	}
}

// TestEnds checks that Wait reports an exit status and the signals of Terminate and Kill, and that
// Terminate also ends the descendants of a command.
func TestEnds(t *testing.T) {
	c := start(t, `
commands:
- {command: [sh, -c, exit 3]}
- {command: [sh, -c, sleep 1000 & echo $!; wait]}
- {command: [sh, -c, trap '' TERM; echo ready; while true; do sleep 0.01; done]}
`)
	p, err := run(t, c, "sh", "-c", "exit 3")
	require.NoError(t, err)
	require.EqualError(t, p.Wait(), "exit status 3")

	p, err = run(t, c, c.commands[1].Args...)
	require.NoError(t, err)
	grandchild := readLine(t, p.out)
	p.Terminate()
	require.EqualError(t, p.Wait(), "signal: terminated")
	pid, err := strconv.Atoi(grandchild)
	require.NoError(t, err)
	eventuallyDead(t, pid)

	p, err = run(t, c, c.commands[2].Args...)
	require.NoError(t, err)
	require.Equal(t, "ready", readLine(t, p.out))
	p.Terminate()
	p.Kill()
	require.EqualError(t, p.Wait(), "signal: killed")
	p.Kill() // nothing is left
}

func readLine(t *testing.T, f *os.File) string {
	t.Helper()
	line := ""
	for b := make([]byte, 1); ; line += string(b) {
		_, err := f.Read(b)
		require.NoError(t, err)
		if b[0] == '\n' {
			return line
		}
	}
}

// TestSignals checks that the spawner has a process group of its own and survives signals, and that
// its commands do not ignore them.
func TestSignals(t *testing.T) {
	c := start(t, "commands: [{command: cat}, {command: [sleep, 1000]}]")
	require.Equal(t, "", output(t, c, "cat"))
	group, err := syscall.Getpgid(c.cmd.Process.Pid)
	require.NoError(t, err)
	require.Equal(t, c.cmd.Process.Pid, group)
	for _, s := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP} {
		require.NoError(t, c.cmd.Process.Signal(s))
		p, err := run(t, c, "sleep", "1000")
		require.NoError(t, err)
		p.Terminate()
		require.EqualError(t, p.Wait(), "signal: terminated")
	}
}

// TestOrphans checks that Close kills a command that ignores SIGTERM, and that calls fail once the
// spawner has been killed.
func TestOrphans(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: it takes seconds")
	}
	list := commands(t, "commands: [{command: [sh, -c, trap '' TERM; echo $$; sleep 1000]}]")
	c, err := Start(list, os.Getenv)
	require.NoError(t, err)
	p, err := run(t, c, list[0].Args...)
	require.NoError(t, err)
	pid, err := strconv.Atoi(readLine(t, p.out))
	require.NoError(t, err)
	require.NoError(t, c.Close())
	require.False(t, alive(t, pid))
	require.Error(t, p.Wait())

	c, err = Start(list, os.Getenv)
	require.NoError(t, err)
	p, err = run(t, c, list[0].Args...)
	require.NoError(t, err)
	pid, err = strconv.Atoi(readLine(t, p.out))
	require.NoError(t, err)
	require.NoError(t, c.cmd.Process.Kill())
	require.ErrorIs(t, p.Wait(), errGone)
	_, err = run(t, c, list[0].Args...)
	require.Error(t, err)
	require.Error(t, c.Close())
	require.NoError(t, syscall.Kill(-pid, syscall.SIGKILL))
}

// TestHostile checks that the spawner survives requests that no client sends, and closes the
// descriptors that come with them.
func TestHostile(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: it takes seconds")
	}
	c := start(t, "commands: [{command: [sleep, 1000]}, {command: cat}]")
	require.Equal(t, "", output(t, c, "cat"))
	descriptors := func() int {
		list, err := os.ReadDir("/proc/" + strconv.Itoa(c.cmd.Process.Pid) + "/fd")
		require.NoError(t, err)
		return len(list)
	}
	before := descriptors()
	null, err := os.Open(os.DevNull)
	require.NoError(t, err)
	defer null.Close()
	files := func(n int) []byte {
		fds := make([]int, n)
		for i := range fds {
			fds[i] = int(null.Fd())
		}
		return syscall.UnixRights(fds...)
	}
	packet := func(r request) []byte {
		b, err := json.Marshal(r)
		require.NoError(t, err)
		return b
	}
	for _, sent := range []struct{ packet, rights []byte }{
		{[]byte("{"), files(3)},
		{[]byte("null"), nil},
		{[]byte(strings.Repeat(" ", maxPacket+1)), files(3)},
		{packet(request{Op: opStart, ID: 1 << 40}), nil},
		{packet(request{Op: opStart, ID: 1 << 40}), files(2)},
		{packet(request{Op: opStart, ID: 1 << 40}), files(100)},
		{packet(request{Op: opStart, ID: 1 << 40, Program: 2}), files(3)},
		{packet(request{Op: opStart, ID: 1 << 40, Program: -1}), files(3)},
		{packet(request{Op: opKill, ID: 1 << 40}), files(3)},
		{packet(request{Op: "exec", ID: 1 << 40}), files(3)},
		{[]byte(`{"Op":"start","ID":99999,"Program":0,"Path":"/bin/sh","Args":["sh"]}`), files(2)},
	} {
		_, _, err := c.conn.WriteMsgUnix(sent.packet, sent.rights, nil)
		require.NoError(t, err)
	}
	require.Equal(t, "", output(t, c, "cat"))
	require.Equal(t, before, descriptors())

	// The spawner rejects a second process with the same number.
	p, err := run(t, c, "sleep", "1000")
	require.NoError(t, err)
	_, _, err = c.conn.WriteMsgUnix(packet(request{Op: opStart, ID: c.last}), files(3), nil)
	require.NoError(t, err)
	require.Error(t, p.Wait(), "the client takes the error for its own")
}

// TestLimit checks that a spawner runs maxProcesses processes at once, and no more.
func TestLimit(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: it takes seconds")
	}
	c := start(t, "commands: [{command: [sleep, 1000]}]")
	for range maxProcesses {
		_, err := run(t, c, "sleep", "1000")
		require.NoError(t, err)
	}
	_, err := run(t, c, "sleep", "1000")
	require.ErrorContains(t, err, "256 commands run already")
}

// TestReadCommands checks that ReadCommands rejects malformed lists and missing files, and that
// Start rejects a missing program.
func TestReadCommands(t *testing.T) {
	for yaml, want := range map[string]string{
		"":                               "lists no commands",
		"commands: []":                   "lists no commands",
		"commands: [{}]":                 "want a program",
		"commands: [{command: ''}]":      "want a program",
		"commands: [{command: \"'a\"}]":  "not closed",
		"commands: [{command: a, x: 1}]": "unknown field",
		"commands: [{command: a, read: [/none-such]}]":                                 "no such file",
		"commands: [{command: a}, {command: [a]}]":                                     "listed twice",
		"commands: [{command: a, unconfined: true, read: [/]}]":                        "remove them",
		"commands: [{command: a, connect: [70000]}]":                                   "",
		"commands: [" + strings.Repeat("{command: a},", maxCommands) + "{command: a}]": "at most 256",
		"#" + strings.Repeat("x", maxListSize):                                         "at most",
	} {
		path := filepath.Join(t.TempDir(), "commands.yaml")
		require.NoError(t, os.WriteFile(path, []byte(yaml), 0o600))
		_, err := ReadCommands(path)
		require.ErrorContains(t, err, want)
	}
	_, err := ReadCommands("none-such")
	require.ErrorIs(t, err, os.ErrNotExist)
	_, err = Start([]Command{{Args: Args{"none-such-program"}}}, os.Getenv)
	require.ErrorContains(t, err, "none-such-program")
}
