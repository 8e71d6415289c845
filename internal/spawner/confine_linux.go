package spawner

import (
	"os"
	"path/filepath"
	"slices"

	"github.com/agent-runner/agent-runner/internal/jail"
)

// programFiles are the system's directories of programs and libraries. Commands may read and
// execute them.
var programFiles = []string{"/bin", "/sbin", "/lib", "/lib32", "/lib64", "/usr", "/opt", "/nix/store", "/snap"}

// configFiles are files below /etc that runtimes read and that contain no secrets.
var configFiles = []string{
	"/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/alternatives", "/etc/passwd", "/etc/group",
	"/etc/os-release", "/etc/mime.types", "/etc/locale.conf", "/etc/default/locale", "/etc/timezone",
}

// confine confines this process to the profile of a command. It does nothing if the command is
// unconfined.
func (p *program) confine() error {
	if p.Unconfined {
		return nil
	}
	calls, err := jail.DenySyscalls(jail.AdminSyscalls()...)
	if err != nil {
		return err
	}
	program, err := filepath.EvalSymlinks(p.Path)
	if err != nil {
		return err
	}
	profile := jail.Profile{
		Read:    slices.Concat(jail.ResolverFiles(), jail.CertificateFiles(), jail.SystemFiles(), configFiles),
		Execute: slices.Concat(programFiles, []string{program}, p.Read),
		Write:   append([]string{os.DevNull}, p.Write...),
		Sockets: p.Write,
		AnyUDP:  true, ConnectTCP: p.Connect, AnyConnectTCP: p.Connect == nil,
		Syscalls: calls,
	}
	_, err = profile.Enforce()
	return err
}
