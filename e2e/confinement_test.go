package e2e

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestConfinement looks at a process plugin as the operating system sees it: its
// user, its rights, its cgroup with the limits of manifest and configuration, its
// environment, its namespaces, and that nobody without its key may call it.
func TestConfinement(t *testing.T) {
	if os.Geteuid() != 0 {
		skip(t, "users and cgroups of plugins need root")
	}
	program, err := hostileProcessBinary()
	if err != nil {
		t.Fatal(err)
	}
	catalog := t.TempDir()
	dir := filepath.Join(catalog, "quiet")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Link(program, filepath.Join(dir, "quiet")); err != nil {
		t.Fatal(err)
	}
	// The manifest asks for less memory than is granted, and for more of the rest.
	write(t, filepath.Join(dir, "manifest.yaml"), hostileManifest("quiet", "quiet", "predicate")+"limits: {memory: 96Mi, cpu: \"4\", pids: 4000}\n")
	seal(t, dir)
	file := filepath.Join(t.TempDir(), "pintle.yaml")
	hostileConfiguration(t, file, catalog, "  - {name: quiet, limits: {memory: 1Gi, cpu: 250m, pids: 40}}\n", "")
	replace(t, file, "[HostName, PodFitsResources]", "[HostName, PodFitsResources, quiet]")
	t.Setenv("OPERATORS_SECRET", "secret")
	e := minimal(t, file, "")
	e.placer(t)
	e.ask(t, "one", "default-scheduler")
	e.placed(t, "one")
	processes := processesOf(catalog)
	if len(processes) != 1 {
		t.Fatalf("processes: %q", processes)
	}
	pid := strings.Fields(processes[0])[0]
	proc := func(file string) string {
		t.Helper()
		data, err := os.ReadFile(filepath.Join("/proc", pid, file))
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	status := map[string]string{}
	for _, line := range strings.Split(proc("status"), "\n") {
		key, value, _ := strings.Cut(line, ":")
		status[key] = strings.TrimSpace(value)
	}
	t.Run("rights", func(t *testing.T) {
		for _, key := range []string{"Uid", "Gid"} {
			for _, id := range strings.Fields(status[key]) {
				if n, err := strconv.Atoi(id); err != nil || n < 60706 || n > 61183 {
					t.Errorf("%s: %s, want one of uidRange", key, status[key])
				}
			}
		}
		for key, want := range map[string]string{"Groups": "", "NoNewPrivs": "1", "CapPrm": "0000000000000000", "CapEff": "0000000000000000", "CapAmb": "0000000000000000"} {
			if status[key] != want {
				t.Errorf("%s: %q, want %q", key, status[key], want)
			}
		}
		for _, kind := range []string{"pid", "ipc", "mnt", "net", "uts"} {
			own, err := os.Readlink(filepath.Join("/proc", pid, "ns", kind))
			if err != nil {
				t.Fatal(err)
			}
			if ours, _ := os.Readlink("/proc/self/ns/" + kind); own == ours {
				t.Errorf("it shares the %s namespace", kind)
			}
		}
		if status["Seccomp"] != "2" || status["CapBnd"] != "0000000000000000" {
			t.Errorf("its system calls are not filtered, or it may gain rights: seccomp %s, bounding set %s", status["Seccomp"], status["CapBnd"])
		}
		limits := proc("limits")
		for _, form := range []string{`Max core file size +0 +0 `, `Max open files +4096 +4096 `, `Max file size +67108864 +67108864 `} {
			if !regexp.MustCompile(form).MatchString(limits) {
				t.Errorf("no %s in\n%s", form, limits)
			}
		}
	})
	t.Run("environment", func(t *testing.T) {
		allowed := regexp.MustCompile(`^(PATH|LANG|PLUGIN_[A-Z_]+|PINTLE_PLUGIN[A-Z_]*|PINTLE_QUESTIONS|GO(MEMLIMIT|MAXPROCS))=`)
		for _, v := range strings.Split(strings.TrimSuffix(proc("environ"), "\x00"), "\x00") {
			if !allowed.MatchString(v) {
				t.Errorf("its environment has %.40s", v)
			}
		}
	})
	t.Run("cgroup", func(t *testing.T) {
		read := func(controller string, files ...string) string {
			for _, line := range strings.Split(proc("cgroup"), "\n") {
				fields := strings.SplitN(line, ":", 3)
				if len(fields) != 3 || !strings.HasPrefix(fields[2], "/pintle") {
					continue
				}
				mounts := []string{"/sys/fs/cgroup"}
				if fields[1] != "" {
					mounts = nil
					for _, name := range strings.Split(fields[1], ",") {
						if name == controller {
							mounts = []string{"/sys/fs/cgroup/" + fields[1], "/sys/fs/cgroup/" + name}
						}
					}
				}
				for _, mount := range mounts {
					for _, file := range files {
						if data, err := os.ReadFile(filepath.Join(mount, fields[2], file)); err == nil {
							return strings.TrimSpace(string(data))
						}
					}
				}
			}
			return ""
		}
		if got := read("memory", "memory.max", "memory.limit_in_bytes"); got != strconv.Itoa(96<<20) {
			t.Errorf("memory %q, want the manifest's 96Mi", got)
		}
		if got := read("cpu", "cpu.max", "cpu.cfs_quota_us"); got != "25000 100000" && got != "25000" {
			t.Errorf("cpu %q, want the operator's 250m", got)
		}
		if got := read("pids", "pids.max"); got != "40" {
			t.Errorf("pids %q, want the operator's 40", got)
		}
	})
	t.Run("mutual TLS", func(t *testing.T) {
		sockets := socketsOf(t, pid)
		if len(sockets) == 0 {
			t.Fatal("it listens to no socket: the test proves nothing")
		}
		for _, socket := range sockets {
			if _, err := os.Stat(socket); err == nil {
				t.Errorf("others find %s by its path", socket)
			}
			// Its file system is its own; only root comes to it from outside.
			fd, err := unix.Open("/proc/"+pid+"/root"+socket, unix.O_PATH|unix.O_CLOEXEC, 0)
			if err != nil {
				t.Fatal(err)
			}
			file := os.NewFile(uintptr(fd), socket)
			defer file.Close()
			socket = fmt.Sprintf("/proc/self/fd/%d", fd)
			// A stranger, who is not even asked for what it wants.
			conn, err := (&tls.Dialer{NetDialer: &net.Dialer{Timeout: 5 * time.Second}, Config: &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}}}).DialContext(bound(t), "unix", socket) //nolint:gosec
			if err == nil {
				_ = conn.SetDeadline(time.Now().Add(5 * time.Second))
				_, err = conn.Read(make([]byte, 1)) // with TLS 1.3 the refusal comes here
				conn.Close()
			}
			if err == nil || !strings.Contains(err.Error(), "certificate required") && !strings.Contains(err.Error(), "bad certificate") {
				t.Errorf("%s answers who has no key: %v", socket, err)
			}
		}
	})
	t.Run("files", func(t *testing.T) {
		root := "/proc/" + pid + "/root"
		entries, err := os.ReadDir(root)
		if err != nil {
			t.Fatal(err)
		}
		for _, entry := range entries {
			if !regexp.MustCompile(`^(bin|sbin|lib.*|usr|etc|dev|proc|run|tmp|nix|gnu)$`).MatchString(entry.Name()) {
				t.Errorf("it sees /%s", entry.Name())
			}
		}
		for _, path := range []string{e.Data, filepath.Join(e.Data, "pki"), "/root", "/var", "/home", "/etc/shadow"} {
			if _, err := os.Stat(root + path); err == nil {
				t.Errorf("it sees %s", path)
			}
		}
	})
	t.Run("tightened while it runs", func(t *testing.T) {
		e.kubectl(t, "patch", "plugin", "quiet", "--type=merge", "-p", `{"spec":{"limits":{"pids":20}}}`)
		eventually(t, func(context.Context) error {
			out, err := exec.Command("sh", "-c", "cat /sys/fs/cgroup/pids/pintle/*/quiet-*/pids.max /sys/fs/cgroup/pintle/*/quiet-*/pids.max 2>/dev/null").Output()
			if !strings.Contains(string(out), "20\n") {
				return fmt.Errorf("pids.max is %q (%w)", out, err)
			}
			return nil
		})
		// Done when the instance with the new limits is in force.
		if r, code := e.plugin(t, "enable", "quiet"); code != 0 {
			t.Errorf("enable ends with %d: %s", code, r.stderr)
		}
	})
	e.stop(t)
}

// socketsOf are the unix sockets that a process listens to, by their paths.
func socketsOf(t *testing.T, pid string) []string {
	t.Helper()
	table, err := os.ReadFile(filepath.Join("/proc", pid, "net", "unix"))
	if err != nil {
		t.Fatal(err)
	}
	inodes := map[string]bool{}
	links, _ := filepath.Glob(filepath.Join("/proc", pid, "fd", "*"))
	for _, link := range links {
		if target, err := os.Readlink(link); err == nil && strings.HasPrefix(target, "socket:[") {
			inodes[strings.Trim(target, "socket:[]")] = true
		}
	}
	var out []string
	for _, line := range strings.Split(string(table), "\n") {
		// Num RefCount Protocol Flags Type St Inode Path; flag 10000 is listening.
		if f := strings.Fields(line); len(f) == 8 && f[3] == "00010000" && inodes[f[6]] && strings.HasPrefix(f[7], "/") {
			out = append(out, f[7])
		}
	}
	return out
}
