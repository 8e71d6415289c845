package jail

import (
	"os"
	"path/filepath"
)

// ResolverFiles returns the files that name resolution reads. If resolv.conf is a link
// into a directory of its manager, as with systemd-resolved, they include that directory,
// in which the manager replaces the file.
func ResolverFiles() []string {
	files := []string{
		"/etc/resolv.conf",
		"/etc/hosts",
		"/etc/host.conf",
		"/etc/nsswitch.conf",
		"/etc/gai.conf",
		"/etc/services",
		"/etc/protocols",
	}
	if target, err := filepath.EvalSymlinks(files[0]); err == nil {
		if dir := filepath.Dir(target); dir != "/etc" && dir != "/" {
			files = append(files, dir)
		}
	}
	return files
}

// CertificateFiles returns the files and directories in which Go and OpenSSL look for
// certificate authorities, including those in SSL_CERT_FILE and SSL_CERT_DIR. Private keys
// are in other directories.
func CertificateFiles() []string {
	files := []string{
		"/etc/ssl/certs", "/etc/ssl/cert.pem", "/etc/ssl/ca-bundle.pem", "/etc/ssl/openssl.cnf", "/etc/ca-certificates",
		"/etc/pki/tls/certs", "/etc/pki/tls/cacert.pem", "/etc/pki/ca-trust/extracted", "/etc/crypto-policies",
		"/usr/share/ca-certificates", "/usr/local/share/ca-certificates",
	}
	for _, list := range []string{os.Getenv("SSL_CERT_FILE"), os.Getenv("SSL_CERT_DIR")} {
		for _, path := range filepath.SplitList(list) {
			if path != "" {
				files = append(files, path)
			}
		}
	}
	return files
}

// SystemFiles returns the files about the machine and the process that language
// runtimes read: time zones, devices, limits, and the process's own entries in /proc.
func SystemFiles() []string {
	files := []string{
		"/etc/localtime", "/usr/share/zoneinfo",
		"/dev/zero", "/dev/urandom", "/dev/random",
		"/proc/self", "/proc/meminfo", "/proc/stat", "/proc/cpuinfo", "/proc/loadavg", "/proc/pressure",
		"/proc/sys/kernel/random/boot_id", "/proc/sys/vm/max_map_count", "/proc/sys/vm/overcommit_memory",
		"/sys/fs/cgroup", "/sys/devices/system/cpu", "/sys/kernel/mm/transparent_hugepage",
	}
	if zones := os.Getenv("ZONEINFO"); zones != "" {
		files = append(files, zones)
	}
	return files
}

// AdminSyscalls returns the system calls that change or inspect the machine, the kernel
// or other processes. A server makes none of them. Most also need capabilities that it
// should not have.
func AdminSyscalls() []string {
	return []string{
		// other processes
		"ptrace", "process_vm_readv", "process_vm_writev", "process_madvise", "process_mrelease", "kcmp", "pidfd_getfd",
		"move_pages", "migrate_pages",
		// the kernel
		"kexec_load", "kexec_file_load", "init_module", "finit_module", "delete_module", "bpf", "perf_event_open",
		"userfaultfd", "add_key", "request_key", "keyctl", "syslog", "iopl", "ioperm", "modify_ldt", "personality",
		"lookup_dcookie",
		// the machine
		"reboot", "swapon", "swapoff", "acct", "quotactl", "quotactl_fd", "sethostname", "setdomainname", "vhangup",
		"settimeofday", "clock_settime", "adjtimex", "clock_adjtime",
		// file systems and namespaces
		"mount", "umount2", "mount_setattr", "move_mount", "open_tree", "fsopen", "fsconfig", "fsmount", "fspick",
		"pivot_root", "chroot", "unshare", "setns", "name_to_handle_at", "open_by_handle_at", "fanotify_init",
		"fanotify_mark", "mknod", "mknodat", "nfsservctl",
		// calls whose operations a filter does not see
		"io_uring_setup", "io_uring_enter", "io_uring_register",
	}
}
