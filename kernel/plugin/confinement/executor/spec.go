package executor

import "golang.org/x/sys/unix"

// Program is the name of the program, and what its first argument is.
const Program = "pintle-executor"

// Version of Spec: kernel and executor are of one build.
const Version = 2

// Descriptors that the executor is started with. What the plugin inherits follows.
const (
	specDescriptor = 3 + iota
	failureDescriptor
	FirstInherited
)

// Spec says what the executor does to itself before it executes the plugin.
type Spec struct {
	Version int
	// Path is executed, with itself as its only argument, in Directory. With Opened it is
	// the last inherited descriptor that is executed, and the plugin does not have it.
	Path, Directory string
	Opened          bool
	// Inherited is how many descriptors the plugin has from 3 on.
	Inherited int
	// View is the plugin's file system; nil leaves it that of the kernel.
	View *View
	// Landlock says which files it reaches, where Linux has that; nil: all.
	Landlock *Landlock
	// Loopback: it has a network of its own, whose loopback is brought up.
	Loopback bool
	// Hostname of its own; empty leaves it.
	Hostname string
	// User and group id; 0 leaves it that of the kernel.
	User int
	// Capabilities are given up; only root has any.
	Capabilities bool
	// LowPorts: of the capabilities, the one by which it listens at ports below 1024 stays.
	LowPorts bool
	// Limits of resources, by number.
	Limits map[int]uint64
	// Filter of system calls, assembled; empty: none.
	Filter []unix.SockFilter
	// Milliseconds that all of it may take.
	Milliseconds int64
}

// View is a root file system that has what is listed, and nothing else. It is
// read-only but for what is said to be writable.
type View struct {
	// Staging is a folder that there is, in which the new root is made.
	Staging string
	// System are files and folders of the machine, where there are any.
	System []string
	// Devices are those of the machine, by their paths.
	Devices []string
	// Binds are files and folders of the machine, at their place in the view.
	Binds []Bind
	// Scratch are folders in memory that the plugin may write to.
	Scratch []Scratch
}

// Bind is a file or folder of the machine in the view.
type Bind struct {
	From, At string
	Optional bool // it may be missing
}

// Scratch is a folder in memory.
type Scratch struct {
	At    string
	Bytes int64
	Files int
	Mode  uint32
	Owned bool // by the plugin's user
}

// Failure is why the plugin was not executed.
type Failure struct {
	Wall  string // which of the walls could not be put up; empty: none of them
	Step  string
	Errno int
}

// Walls that the executor puts up.
const (
	WallNamespaces = "namespaces"
	WallSeccomp    = "seccomp"
)
