package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/agent-runner/agent-runner/cmd/agent-runner/internal/cli"
	"github.com/agent-runner/agent-runner/host"
	"github.com/agent-runner/agent-runner/host/server"
	"github.com/agent-runner/agent-runner/internal/jail"
	"github.com/agent-runner/agent-runner/internal/sandbox/child"
	"github.com/agent-runner/agent-runner/internal/spawner"
)

// envAttack names the environment variable that holds, as JSON, the targets of an attacker who
// runs code in a server.
const envAttack = "AGENT_RUNNER_TEST_ATTACK"

func init() { programs["compromised"] = compromised }

// compromised runs the command. If the command is a server, compromised runs the attacker's code
// once the server serves. That code is written in Go, but makes the system calls that injected
// machine code could make.
func compromised() {
	if code, ok := host.CompileChildMain(); ok {
		os.Exit(code)
	}
	if spawner.IsChild() {
		os.Exit(spawner.Main())
	}
	e := &cli.Env{
		In:      os.Stdin,
		Out:     os.Stdout,
		Err:     os.Stderr,
		Getenv:  os.Getenv,
		Own:     true,
		Compile: &child.Options{},
		Serving: attack,
	}
	os.Exit(execute(context.Background(), e, os.Args[1:]))
}

// targets are the files, ports and processes that an attacker tries to reach.
type targets struct {
	Victim                int    // ID of a process
	Home                  string // the operator's home directory, with a file "key"
	Data, Cache           string // directories of the server, with "p.db"
	Allowed, Left         string // TCP addresses: only the port of Allowed is in --connect-ports
	UDP, Socket, Abstract string // addresses
	NotKey                []byte // bits of the key for secrets, inverted
}

// An attempt is one attack. It fails if try returns an error.
type attempt struct {
	name string // the attack's name in docs/security.md
	try  func(t *targets, o *server.Options) error
	root bool // works without confinement only for root, or only on some systems
}

var attempts = []attempt{
	{name: "read its own memory and environment", try: func(t *targets, _ *server.Options) error {
		b, err := os.ReadFile("/proc/self/environ")
		if err != nil || !bytes.Contains(b, []byte("OPENAI_API_KEY=sk-")) {
			return fmt.Errorf("environment: %w", err)
		}
		return findInMemory(t.NotKey)
	}},
	{
		name: "read and change the database",
		try:  func(t *targets, _ *server.Options) error { return readWrite(filepath.Join(t.Data, "p.db")) },
	},
	{
		name: "read and change the cache of compiled modules",
		try:  func(t *targets, _ *server.Options) error { return readWrite(filepath.Join(t.Cache, "planted")) },
	},
	{
		name: "read and change its temporary directory",
		try:  func(*targets, *server.Options) error { return readWrite(filepath.Join(os.TempDir(), "planted")) },
	},
	{name: "accept the connections of its clients", try: func(*targets, *server.Options) error {
		for fd := range 1000 {
			if n, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ACCEPTCONN); err == nil && n == 1 {
				return nil
			}
		}
		return errors.New("no socket listens")
	}},
	{
		name: "connect to the ports of `--connect-ports` at any address",
		try:  func(t *targets, _ *server.Options) error { return dial("tcp", t.Allowed) },
	},
	{
		name: "send UDP packets to any address and port",
		try:  func(t *targets, _ *server.Options) error { return dial("udp", t.UDP) },
	},
	{name: "start its own program, which stays confined", try: func(t *targets, _ *server.Options) error {
		cmd := exec.Command("/proc/self/exe")
		cmd.Args = []string{"agent-runner", "version"}
		return cmd.Run()
	}},
	{
		name: "start the commands of `--mcp-commands`",
		try:  func(_ *targets, o *server.Options) error { return spawn(o, "cat") },
	},
	{
		name: "read certificates, the resolver's configuration and facts about the machine",
		try: func(*targets, *server.Options) error {
			for _, path := range []string{"/etc/hosts", "/proc/meminfo", "/proc/self/net/tcp", "/proc/self/mountinfo"} {
				if _, err := os.ReadFile(path); err != nil {
					return err
				}
			}
			return nil
		},
	},
	{
		name: "see that a file exists, its size, owner and times, and change the times",
		try: func(t *targets, _ *server.Options) error {
			info, err := os.Stat(filepath.Join(t.Home, "key"))
			if err != nil {
				return err
			}
			return os.Chtimes(filepath.Join(t.Home, "key"), info.ModTime(), info.ModTime())
		},
	},
	{name: "list the numbers of processes", try: func(*targets, *server.Options) error {
		_, err := os.ReadDir("/proc")
		return err
	}},

	{name: "read other files", try: func(t *targets, _ *server.Options) error {
		return anyOf(read(filepath.Join(t.Home, "key")), read("/etc/passwd"), read(filepath.Join(t.Home, "secrets.key")))
	}},
	{name: "list other directories", try: func(t *targets, _ *server.Options) error {
		var errs []error
		for _, dir := range []string{"/", "/etc", "/usr", "/tmp", t.Home} {
			_, err := os.ReadDir(dir)
			errs = append(errs, err)
		}
		return anyOf(errs...)
	}},
	{name: "create, change or remove other files", try: func(t *targets, _ *server.Options) error {
		return anyOf(
			os.WriteFile(filepath.Join(t.Home, "planted"), nil, 0o600),
			os.Rename(filepath.Join(t.Home, "key"), filepath.Join(t.Data, "key")),
			os.Link(filepath.Join(t.Home, "key"), filepath.Join(t.Data, "link")),
			os.Truncate(filepath.Join(t.Home, "key"), 0),
			os.Remove(filepath.Join(t.Home, "key")),
		)
	}},
	{name: "change the mode, owner or extended attributes of a file", try: func(t *targets, _ *server.Options) error {
		secrets := filepath.Join(t.Home, "secrets.key")
		return anyOf(os.Chmod(secrets, 0o644), os.Chown(secrets, os.Getuid(), os.Getgid()),
			unix.Setxattr(secrets, "user.x", []byte("x"), 0))
	}},
	{name: "start other programs", try: func(t *targets, _ *server.Options) error {
		own, err := os.ReadFile("/proc/self/exe")
		if err != nil {
			return err
		}
		copied := filepath.Join(t.Data, "program")
		if err := os.WriteFile(copied, own, 0o700); err != nil {
			return err
		}
		inMemory, err := unix.MemfdCreate("program", 0)
		if err == nil {
			unix.Close(inMemory)
		}
		written := exec.Command(copied)
		written.Args = []string{"agent-runner", "version"}
		return anyOf(exec.Command("/usr/bin/env").Run(), exec.Command("/bin/sh", "-c", "true").Run(), written.Run(), err)
	}},
	{
		name: "start commands that `--mcp-commands` does not list",
		try:  func(_ *targets, o *server.Options) error { return spawn(o, "cat", "/etc/passwd") },
	},
	{
		name: "read the command line, environment or memory of other processes",
		try: func(t *targets, _ *server.Options) error {
			at := func(file string) error { return read(fmt.Sprintf("/proc/%d/%s", t.Victim, file)) }
			local := []unix.Iovec{{Base: new(byte), Len: 1}}
			_, err := unix.ProcessVMReadv(t.Victim, local, []unix.RemoteIovec{{Base: 1, Len: 1}}, 0)
			return anyOf(at("cmdline"), at("environ"), at("maps"), reached(err),
				unixOpen(fmt.Sprintf("/proc/%d/mem", t.Victim), unix.O_RDWR))
		},
	},
	{name: "trace or signal other processes", try: func(t *targets, _ *server.Options) error {
		return anyOf(unix.Kill(t.Victim, 0), unix.PtraceSeize(t.Victim), pidfdSignal(t.Victim))
	}},
	{name: "connect to other TCP ports", try: func(t *targets, _ *server.Options) error {
		return anyOf(dial("tcp", t.Left), fastOpenTo(t.Left), multipathTo(t.Left))
	}},
	{name: "listen on other TCP ports", try: func(*targets, *server.Options) error {
		l, err := net.Listen("tcp4", "127.0.0.1:0")
		if err == nil {
			l.Close()
		}
		return err
	}},
	{name: "connect to Unix sockets", try: func(t *targets, _ *server.Options) error {
		return anyOf(dial("unix", t.Socket), dial("unix", t.Abstract))
	}},
	{name: "make sockets of other kinds", try: func(*targets, *server.Options) error {
		var errs []error
		for _, kind := range [][3]int{
			{unix.AF_NETLINK, unix.SOCK_RAW, 0}, {unix.AF_VSOCK, unix.SOCK_STREAM, 0}, {unix.AF_ALG, unix.SOCK_SEQPACKET, 0},
			{unix.AF_PACKET, unix.SOCK_RAW, 0}, {unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_ICMP},
			{unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_MPTCP},
		} {
			fd, err := unix.Socket(kind[0], kind[1], kind[2])
			if err == nil {
				unix.Close(fd)
			}
			errs = append(errs, err)
		}
		return anyOf(errs...)
	}},
	{name: "make namespaces", root: true, try: func(*targets, *server.Options) error {
		cmd := exec.Command("/proc/self/exe")
		cmd.Args = []string{"agent-runner", "version"}
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWUSER}
		return anyOf(cmd.Run(), unix.Unshare(unix.CLONE_FS|unix.CLONE_NEWNET))
	}},
	{name: "mount file systems", root: true, try: func(t *targets, _ *server.Options) error {
		return reached(unix.Mount("x", t.Data, "no-such-type", 0, ""))
	}},
	{
		name: "change the root directory",
		root: true,
		try:  func(*targets, *server.Options) error { return unix.Chroot("/") },
	},
	{
		name: "call the kernel's interfaces for modules, BPF, keys, tracing or asynchronous I/O",
		try: func(*targets, *server.Options) error {
			var errs []error
			for _, number := range []uintptr{
				unix.SYS_FINIT_MODULE, unix.SYS_BPF, unix.SYS_KEYCTL, unix.SYS_ADD_KEY, unix.SYS_PERF_EVENT_OPEN,
				unix.SYS_IO_URING_SETUP, unix.SYS_USERFAULTFD,
			} {
				_, _, errno := unix.Syscall6(number, ^uintptr(0), 0, 0, 0, 0, 0)
				errs = append(errs, reached(errno))
			}
			return anyOf(errs...)
		},
	},
}

// anyOf returns nil if one of the errors is nil, which means that one variant of an attack succeeded.
// Otherwise it returns all errors.
func anyOf(errs ...error) error {
	if slices.Contains(errs, nil) {
		return nil
	}
	return errors.Join(errs...)
}

// reached returns err if it is EPERM or EACCES, which means that the system call was denied, and nil
// otherwise. It is for calls with invalid arguments, which fail with other errors if they are
// allowed.
func reached(err error) error {
	if errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES) {
		return err
	}
	return nil
}

func read(path string) error {
	_, err := os.ReadFile(path)
	return err
}

func readWrite(path string) error {
	fd, err := unix.Open(path, unix.O_RDWR|unix.O_CREAT|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return err
	}
	return unix.Close(fd)
}

func unixOpen(path string, flags int) error {
	fd, err := unix.Open(path, flags, 0)
	if err == nil {
		unix.Close(fd)
	}
	return err
}

func dial(network, address string) error {
	c, err := net.Dial(network, address)
	if err != nil {
		return err
	}
	defer c.Close()
	if network == "udp" { // dialing UDP sends nothing
		_, err = c.Write([]byte("x"))
	}
	return err
}

// tcpSocket returns an unconnected IPv4 socket of the given TCP protocol, and address in the form
// that system calls take.
func tcpSocket(protocol int, address string) (fd int, to *unix.SockaddrInet4, err error) {
	a, err := net.ResolveTCPAddr("tcp4", address)
	if err != nil {
		return 0, nil, err
	}
	fd, err = unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, protocol)
	return fd, &unix.SockaddrInet4{Port: a.Port, Addr: [4]byte(a.IP.To4())}, err
}

// fastOpenTo connects with TCP Fast Open: it sends data on an unconnected socket.
func fastOpenTo(address string) error {
	fd, to, err := tcpSocket(0, address)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return anyOf(unix.Sendto(fd, []byte("x"), unix.MSG_FASTOPEN, to),
		unix.Sendmsg(fd, []byte("x"), nil, to, unix.MSG_FASTOPEN))
}

// multipathTo connects with Multipath TCP, which Landlock does not restrict.
func multipathTo(address string) error {
	fd, to, err := tcpSocket(unix.IPPROTO_MPTCP, address)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return unix.Connect(fd, to)
}

func pidfdSignal(pid int) error {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return unix.PidfdSendSignal(fd, 0, nil, 0)
}

// spawn starts a command with the server's spawner and waits for its end.
func spawn(o *server.Options, command ...string) error {
	if o.Commands == nil {
		return errors.New("there is no spawner")
	}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer null.Close()
	child, err := o.Commands.Start(command, null, null, null)
	if err != nil {
		return err
	}
	return child.Wait()
}

// findInMemory searches the writable memory of this process for the bytes whose complement is
// inverse. The caller passes the complement so that the search does not find the argument.
func findInMemory(inverse []byte) error {
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		return err
	}
	mem, err := os.Open("/proc/self/mem")
	if err != nil {
		return err
	}
	defer mem.Close()
	for line := range strings.Lines(string(maps)) {
		var from, to int64
		if _, err := fmt.Sscanf(line, "%x-%x rw", &from, &to); err != nil || to-from > 1<<30 {
			continue
		}
		for b := make([]byte, 1<<20); from < to; from += 1<<20 - int64(len(inverse)) {
			n, _ := mem.ReadAt(b[:min(1<<20, to-from)], from)
			for i := range max(0, n-len(inverse)) {
				if isInverse(b[i:i+len(inverse)], inverse) {
					return nil
				}
			}
			if n == 0 {
				break
			}
		}
	}
	return errors.New("the key is not in memory")
}

func isInverse(b, inverse []byte) bool {
	for i := range inverse {
		if b[i] != ^inverse[i] {
			return false
		}
	}
	return true
}

// attack makes all attempts and prints their results as JSON.
func attack(o *server.Options) {
	var t targets
	outcomes := map[string]string{}
	if err := json.Unmarshal([]byte(os.Getenv(envAttack)), &t); err != nil {
		panic(err)
	}
	for _, a := range attempts {
		outcomes[a.name] = ""
		if err := a.try(&t, o); err != nil {
			outcomes[a.name] = err.Error()
		}
	}
	b, err := json.Marshal(outcomes)
	if err != nil {
		panic(err)
	}
	fmt.Printf("outcomes: %s\n", b)
}

// attacked starts a compromised server with additional flags. It replaces "PORT" in the flags with
// the port of targets.Allowed. It returns the error of each attempt by name, or "" if the attempt
// succeeded.
func attacked(t *testing.T, args ...string) map[string]string {
	t.Helper()
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	for _, name := range []string{"home", "data", "cache", "tmp"} {
		require.NoError(t, os.Mkdir(in(name), 0o700))
	}
	key := make([]byte, 32)
	_, _ = rand.Read(key)
	require.NoError(t, os.WriteFile(in("home/key"), []byte("private"), 0o600))
	require.NoError(t, os.WriteFile(in("home/secrets.key"), []byte("main:"+base64.StdEncoding.EncodeToString(key)), 0o600))
	require.NoError(t, os.WriteFile(in("home/commands.yaml"), []byte("commands: [{command: cat}]"), 0o600))

	listen := func(network, address string) net.Listener {
		l, err := net.Listen(network, address)
		require.NoError(t, err)
		t.Cleanup(func() { l.Close() })
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				_ = c.Close()
			}
		}()
		return l
	}
	allowed, left, socket := listen("tcp", "127.0.0.1:0"), listen("tcp", "127.0.0.1:0"), listen("unix", in("s"))
	abstract := listen("unix", "@"+strings.ReplaceAll(dir, "/", "-"))
	udp, err := net.ListenPacket("udp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { udp.Close() })
	victim := exec.Command("sleep", "1000")
	require.NoError(t, victim.Start())
	t.Cleanup(func() { _ = victim.Process.Kill(); _ = victim.Wait() })
	at := &targets{
		Victim:  victim.Process.Pid,
		Home:    in("home"),
		Data:    in("data"),
		Cache:   in("cache"),
		Allowed: allowed.Addr().String(),
		Left:    left.Addr().String(),
		UDP: udp.LocalAddr().
			String(),
		Socket:   socket.Addr().String(),
		Abstract: abstract.Addr().String(),
		NotKey:   bytes.Clone(key[:16]),
	}
	for i := range at.NotKey {
		at.NotKey[i] ^= 0xff
	}
	text, err := json.Marshal(at)
	require.NoError(t, err)

	_, port, err := net.SplitHostPort(at.Allowed)
	require.NoError(t, err)
	for i := range args {
		args[i] = strings.ReplaceAll(args[i], "PORT", port)
	}
	serve := []string{
		"serve", "--listen", "127.0.0.1:0", "--store", in("data/p.db"), "--cache-dir", in("cache"),
		"--secrets-key-file", in("home/secrets.key"), "--mcp-commands", in("home/commands.yaml"), "--log", "off",
	}
	cmd := exec.Command("compromised", append(serve, args...)...)
	cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"),
		"HOME=" + in("home"),
		"TMPDIR=" + in("tmp"),
		"OPENAI_API_KEY=sk-0123456789",
		envAttack + "=" + string(text),
	}
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	stdout, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	var outcomes map[string]string
	printed := []byte{}
	for b := make([]byte, 64<<10); outcomes == nil; {
		n, err := stdout.Read(b)
		printed = append(printed, b[:n]...)
		if found := regexp.MustCompile(`(?m)^outcomes: (.*)\n`).FindSubmatch(printed); found != nil {
			require.NoError(t, json.Unmarshal(found[1], &outcomes))
		} else if err != nil {
			require.ErrorIs(t, err, io.EOF)
			require.Fail(t, "the server ended", "%s\n%s", printed, stderr.String())
		}
	}
	require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
	require.NoError(t, cmd.Wait(), stderr.String())
	return outcomes
}

// TestCompromised checks that an attacker who runs code in a confined server reaches exactly what
// docs/security.md lists. It also checks that every attempt succeeds with --no-confine, except
// those that need root and the start of a command that --mcp-commands does not list.
func TestCompromised(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: it starts servers")
	}
	t.Parallel()
	if missing := jail.Support().Missing(); missing != "" {
		t.Skip("the kernel lacks", missing)
	}
	var can, cannot []string
	for name, err := range attacked(t, "--connect-ports", "PORT") {
		if err == "" {
			can = append(can, name)
		} else {
			t.Logf("%s: %s", name, strings.ReplaceAll(err, "\n", "; "))
			cannot = append(cannot, name)
		}
	}
	text, err := os.ReadFile("../../docs/security.md")
	require.NoError(t, err)
	_, section, ok := strings.Cut(string(text), "\n## What a compromised server can reach\n")
	require.True(t, ok)
	section, _, _ = strings.Cut(section, "\n## ")
	before, after, ok := strings.Cut(section, "\nIt cannot\n")
	require.True(t, ok)
	listed := func(text string) (names []string) {
		for _, bullet := range regexp.MustCompile(`(?m)^- ([^;:\n]+?)[.;:]`).FindAllStringSubmatch(text, -1) {
			names = append(names, bullet[1])
		}
		return names
	}
	require.ElementsMatch(t, listed(before), can)
	require.ElementsMatch(t, listed(after), cannot)

	free := attacked(t, "--no-confine")
	for _, a := range attempts {
		if (a.root && os.Getuid() != 0) || a.name == "start commands that `--mcp-commands` does not list" {
			continue
		}
		require.Empty(t, free[a.name], a.name)
	}
}
