package confinement

import (
	"path/filepath"

	"pintle.dev/pintle/kernel/plugin/confinement/executor"
)

// Bounds of what a plugin may write, all of it in memory and counted as its own.
const (
	// ScratchBytes are those of /tmp and of /dev/shm, each, and of one file.
	ScratchBytes = 64 << 20
	scratchFiles = 4096
	// Of the folder with its sockets.
	socketBytes, socketFiles = 1 << 20, 256
)

// programs are what programs need of the machine: libraries, interpreters.
var programs = []string{"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store", "/gnu/store"}

// settings are the files of /etc that every program reads, and that hold no secret.
var settings = []string{
	"/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/alternatives", "/etc/passwd", "/etc/group",
	"/etc/nsswitch.conf", "/etc/localtime", "/etc/timezone", "/etc/os-release", "/etc/mime.types",
	"/etc/ssl/certs", "/etc/ssl/cert.pem", "/etc/ssl/openssl.cnf", "/etc/ca-certificates", "/etc/pki/tls/certs", "/etc/pki/ca-trust",
}

// names are those that a program on the network reads.
var names = []string{"/etc/hosts", "/etc/resolv.conf", "/etc/services", "/etc/protocols", "/etc/gai.conf", "/etc/host.conf"}

var devices = []string{"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"}

// Folders are what a process sees of the machine beside its programs.
type Folders struct {
	// Staging is a folder that is there, in which its root is made.
	Staging string
	// Visible are files and folders that it may read.
	Visible []Visible
}

// Visible is a file or folder of the machine, and where the process sees it.
type Visible struct {
	From, At string
	Optional bool // it may be missing
}

func (f *Folders) view(sockets string, network bool) *executor.View {
	v := &executor.View{Staging: f.Staging, Devices: devices}
	v.System = append(append(v.System, programs...), settings...)
	if network {
		v.System = append(v.System, names...)
	}
	for _, s := range f.Visible {
		v.Binds = append(v.Binds, executor.Bind{From: s.From, At: filepath.Clean(s.At), Optional: s.Optional})
	}
	v.Scratch = []executor.Scratch{
		{At: "/tmp", Bytes: ScratchBytes, Files: scratchFiles, Mode: 0o1777},
		{At: "/dev/shm", Bytes: ScratchBytes, Files: scratchFiles, Mode: 0o1777},
		{At: filepath.Clean(sockets), Bytes: socketBytes, Files: socketFiles, Mode: 0o700, Owned: true},
	}
	return v
}
