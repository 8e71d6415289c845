package hosting

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/agent-runner/agent-runner/cmd/agent-runner/internal/cli"
	"github.com/agent-runner/agent-runner/host/store"
	"github.com/agent-runner/agent-runner/internal/agent/journal"
)

// EnvStore is the environment variable with the store of runs.
const EnvStore = "AGENT_RUNNER_STORE"

// DefaultStore names the store in the user's state directory.
const DefaultStore = "default"

// StoreHelp describes the values of flags that name a store.
const StoreHelp = "the path of an SQLite database, postgres://…, or default for the database in the user's state directory"

// StorePath returns the location of the store in the flag, or else in the environment, or "" if
// neither names one.
func StorePath(e *cli.Env, flag string) string {
	if flag == "" {
		flag = e.Getenv(EnvStore)
	}
	if flag != DefaultStore {
		return flag
	}
	if dir := e.Getenv("XDG_STATE_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "agent-runner", "runs.db")
	}
	return filepath.Join(e.Getenv("HOME"), ".local", "state", "agent-runner", "runs.db")
}

// CreateStateDir creates the directories above the store in the user's state directory, if at is its location.
func CreateStateDir(e *cli.Env, at string) error {
	if at != StorePath(e, DefaultStore) {
		return nil
	}
	return os.MkdirAll(filepath.Dir(filepath.Dir(at)), 0o700)
}

// JournalOptions returns options that journal a tenant's runs in a store. spec is stored with
// each run.
func JournalOptions(e *cli.Env, s store.Store, tenant string, spec json.RawMessage) *journal.Options {
	var j journal.Journal = s
	if e.Journal != nil {
		j = e.Journal(s)
	}
	return &journal.Options{Journal: j, Tenant: tenant, Owner: Owner(), Gone: OwnerGone, Spec: spec}
}

// OpenStore opens the store in the flag, or else in the environment. It creates a missing
// database file.
func OpenStore(ctx context.Context, e *cli.Env, flag string) (store.Store, error) {
	at := StorePath(e, flag)
	err := CreateStateDir(e, at)
	var s store.Store
	if err == nil {
		s, err = store.Open(ctx, at, nil)
	}
	if err != nil {
		return nil, cli.BeforeRun(ctx, err)
	}
	return s, nil
}

// OpenExistingStore opens an existing store. It returns an error if a database file is missing,
// instead of creating it.
func OpenExistingStore(ctx context.Context, e *cli.Env, flag string) (store.Store, error) {
	at := StorePath(e, flag)
	if path := strings.TrimPrefix(at, "file://"); flag != DefaultStore && !strings.Contains(path, "://") {
		if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
			return nil, cli.Usagef("no store at %s; check the path, or create a store with: agent-runner run --store", at)
		}
	}
	return OpenStore(ctx, e, flag)
}

// RedactedLocation returns the location of a store. It hides the password in a URL, also in one with
// several hosts.
func RedactedLocation(at string) string {
	if u, err := url.Parse(at); err == nil && u.Host != "" {
		return u.Redacted()
	}
	scheme, rest, ok := strings.Cut(at, "://")
	if !ok {
		return at
	}
	i := strings.LastIndexByte(rest, '@')
	if i < 0 {
		return at
	}
	user, _, password := strings.Cut(rest[:i], ":")
	if password {
		user += ":xxxxx"
	}
	return scheme + "://" + user + rest[i:]
}

// StoreFlag returns the --store flag for commands in hints, quoted for the shell. It is
// "" if the user did not set the flag.
func StoreFlag(flag string) string {
	if flag == "" {
		return ""
	}
	if at := RedactedLocation(flag); !strings.ContainsAny(at, " \t'\"$`&;|<>()*?[]#~\\") || strings.Contains(at, "://") {
		return " --store " + at
	}
	return " --store '" + strings.ReplaceAll(flag, "'", `'\''`) + "'"
}

// Whoami returns user@host, which is recorded with answers.
func Whoami() string {
	name := "somebody"
	if u, err := user.Current(); err == nil && u.Username != "" {
		name = u.Username
	}
	host, _ := os.Hostname()
	return name + cli.After("@", host)
}

// A process identifies a process uniquely over time. A later process with the same pid
// differs in its start time or boot id.
type process struct {
	host, boot, space string // space is the PID namespace
	pid               int
	began             string
}

// Owner returns the name of this process as an owner of runs. The name is unique across machines
// and over time.
func Owner() string {
	p := process{pid: os.Getpid()}
	p.began, _ = beganAt(p.pid)
	p.host, p.boot, p.space = machine()
	return fmt.Sprintf("%s/%s/%s/%d/%s", p.host, p.boot, p.space, p.pid, p.began)
}

func machine() (host, boot, space string) {
	host, _ = os.Hostname()
	b, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	boot, _, _ = strings.Cut(strings.TrimSpace(string(b)), "-")
	space, _ = os.Readlink("/proc/self/ns/pid")
	return strings.ReplaceAll(host, "/", "_"), boot, strings.Trim(space, "pid:[]")
}

// beganAt returns the start time of a process, in ticks since the boot. It returns "" for a
// zombie, and an error if /proc has no readable stat file for the process.
func beganAt(pid int) (string, error) {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return "", err
	}
	// The command name is in parentheses and may contain any character. The state follows.
	fields := strings.Fields(string(b)[strings.LastIndexByte(string(b), ')')+1:])
	if len(fields) < 20 || fields[0] == "Z" || fields[0] == "X" {
		return "", nil
	}
	return fields[19], nil
}

// OwnerGone reports whether an owner is a process of this machine that has ended. It returns
// false if it cannot find out: for processes of other machines and in other PID namespaces.
func OwnerGone(owner string) bool {
	part := strings.Split(owner, "/")
	if len(part) != 5 {
		return false
	}
	host, boot, space := machine()
	pid, err := strconv.Atoi(part[3])
	switch {
	case err != nil || part[0] != host || boot == "":
		return false
	case part[1] != boot:
		return true // the machine was rebooted
	case part[2] != space:
		return false
	case part[4] == "":
		return processGone(pid)
	}
	began, err := beganAt(pid)
	if errors.Is(err, fs.ErrPermission) {
		return false // a confined process cannot read the start time; the process may be the owner
	}
	return began != part[4]
}
