package plugin

import (
	"context"
	"encoding/json"
	"log/slog"
	"time"

	"k8s.io/client-go/rest"

	"pintle.dev/pintle/kernel/plugin/manifest"
	"pintle.dev/pintle/kernel/plugin/modulecache"
	"pintle.dev/pintle/kernel/plugin/process"
	"pintle.dev/pintle/kernel/plugin/wasm"
	"pintle.dev/pintle/sdk/apis/kernel/v1alpha1"
)

// Config says what the host loads and how profiles are made of it.
type Config struct {
	// Directories are searched for bundles, first match wins.
	Directories []string
	// Modules keeps compiled modules; nil: they are compiled at each start.
	Modules *modulecache.Cache
	// RunDirectory holds the processes' sockets; keep it short. Empty: the
	// system's folder for temporary files.
	RunDirectory string
	// CallTimeout is the deadline of one call; default 100 ms.
	CallTimeout time.Duration
	// StartTimeout is the deadline of a start; default 10 s.
	StartTimeout time.Duration
	// StopTimeout is how long a process may take to stop in order; default 10 s.
	StopTimeout time.Duration
	// MemoryLimit is the ceiling of a WASM module in bytes; default 256 MiB.
	MemoryLimit int64
	// ProcessMemoryLimit is the ceiling of a process in bytes, CallsPerSecond
	// that of its calls to the API, PIDs that of its processes and threads. They
	// hold where a bundle's own are not set; 0 is none.
	ProcessMemoryLimit int64
	CallsPerSecond     int
	PIDs               int
	// Users are the user ids of processes that are not privileged, where the host is
	// root; default 60706 to 61183.
	Users process.Users
	// SharedDirectory is a folder that every user may pass through; processes
	// with a user of their own have their sockets below it. Empty: RunDirectory, or
	// one of the host's own.
	SharedDirectory string
	// PublicDirectory is a folder that every process may read; empty: none.
	PublicDirectory string
	// RunWithout are the walls (confinement.Walls) that processes may lack where the
	// machine cannot put them up.
	RunWithout []string
	// WASMWorker says which modules run in a process apart: WASMWorkerNone,
	// WASMWorkerInstalled or WASMWorkerAll; empty: none.
	WASMWorker string
	// Cgroup is the cgroup below which processes have theirs; empty: none.
	Cgroup   string
	Bundles  []BundleConfig
	Profiles []Profile
	// Admission are the names of the admission plugins that are asked, in order.
	Admission []string
	// Controllers are the names of the controllers that run.
	Controllers []string
	// OnDemand are those of Controllers that the configuration names in controllers.onDemand.
	OnDemand []string
	// Waiting are those of OnDemand that nothing has asked for yet. They are enabled and
	// Idle: they have no process, no identity and no role.
	Waiting []string
	// Cloud is the name of the cloud provider, of which one at most may be in use.
	Cloud []string
	// APIServers are the names of the API servers that run.
	APIServers []string
	// Runtimes, Proxies and Networks are the names of those that the node uses.
	Runtimes, Proxies, Networks []string
	// Standby: Controllers and Cloud run in another kernel of the same cluster, not here.
	Standby bool
	// Silent are the kinds of plugins whose Plugin objects another kernel of the
	// same cluster writes.
	Silent []string
	// NodeName of this machine, for controllers; may be empty.
	NodeName string
}

// Which modules run in a process apart (plugins.wasmWorker).
const (
	WASMWorkerNone      = "none"
	WASMWorkerInstalled = "installed" // those of installed bundles
	WASMWorkerAll       = "all"
)

// BundleConfig is one bundle to load.
type BundleConfig struct {
	Name      string
	Transport string // wasm or process; empty: wasm where there is a module
	Version   string // as the manifest says; empty: what is there
	Digest    string // of the bundle, or of the artefact in the place of the manifest's
	Directory string // the bundle's own folder; empty: it is looked for by its name
	Placed    bool   // Directory is of the catalog: grants need its digest
	// Installed: the configuration does not name it; it is installed, or a Plugin
	// object asks for it. Its faults keep nothing else from being loaded.
	Installed bool
	OnFailure string          // refuse or ignore; overrides the manifest's
	Config    json.RawMessage // an object: plugin name → its configuration
	Limits    manifest.Limits // what it gets at most
	// Privileged grants a process that asks for it the kernel's user and rights.
	Privileged bool
	// Network grants a process that asks for it the machine's network.
	Network bool
	// LowPorts grants a process that asks for it the ports below 1024 of that network.
	LowPorts bool
	// Files are the folders that a module which asks for them may read.
	Files []string
	// Granted is the digest of the bundle that Privileged and Files are granted to.
	// Without one they are granted to what lies in Config.Directories alone: who
	// can have a bundle installed chooses its name.
	Granted string
	// HostFunctions are those that a module which asks for them may call; none:
	// all that it asks for.
	HostFunctions []string
	// Timeout is the deadline of one call; 0: the host's, or the manifest's.
	Timeout time.Duration
}

// Profile is an ordered set of predicates and priorities for one schedulerName.
type Profile struct {
	SchedulerName string
	Predicates    []string
	Priorities    []WeightedPriority
	// Points are the plugins at the other points of the cycle, by kind
	// (sdk.CycleKinds), in order.
	Points map[string][]string
	// BindersOnly: the host itself binds no pod that the bind plugins skip.
	BindersOnly bool
	// Config are the configurations of plugins in this profile, by name, in the
	// place of what their bundles are configured with. Each such plugin has an
	// instance for this profile, and what a Plugin object says of its
	// configuration does not concern that.
	Config map[string]json.RawMessage
}

// WeightedPriority is a priority with the factor of its score.
type WeightedPriority struct {
	Name   string
	Weight int64
}

// Deps are what the host works with.
type Deps struct {
	Log *slog.Logger
	// Beside is the host of this process that this one runs beside, with Apart
	// behind the names of its bundles: their processes have user ids, folders and cgroups of
	// their own. Nil: it is the only one.
	Beside *Host
	Apart  string
	// REST speaks with the host's own identity; Plugin objects and RBAC
	// objects are written with it. Nil: none are.
	REST *rest.Config
	// Identity opens the API socket that stands for a plugin and returns its
	// path; asked again for the same name it returns the same, with the access
	// of the last time. Nil: controllers cannot run.
	Identity func(ctx context.Context, plugin string, a Access) (socket string, err error)
	// Release is told of a plugin, or bundle, that is loaded no more, to close what
	// Identity opened. It must not wait. Nil: nothing is closed before the end.
	Release func(plugin string)
	// ServesGroup reports whether the kernel serves a version of a group of the API
	// itself, which no plugin can. Nil: it serves none.
	ServesGroup func(group string) bool
	// Bundles finds installed bundles beside those of Config.Directories. Nil:
	// there are none.
	Bundles Bundles
}

// Access says who may use the socket of a plugin's identity, and how.
type Access struct {
	// Directory is where the socket shall lie; empty leaves it to the kernel.
	Directory string
	// UID and GID own the socket; 0 is the kernel's own.
	UID, GID int
	// CallsPerSecond bounds requests; 0 is no bound.
	CallsPerSecond int
	// Denied is told of each request that RBAC forbids: what was asked for, as
	// "list secrets". May be nil.
	Denied func(what string)
	// Leading: the identity is one of controllers, which write while their kernel
	// leads and not at other times.
	Leading bool
	// Rules are those of the plugin's own that operators left to it, for who serves the socket
	// without the roles that say the same.
	Rules []v1alpha1.PluginPermission
}

// Bundles finds installed bundles: several versions of one name may be there.
type Bundles interface {
	// Find returns the folder of a bundle, with its manifest.yaml. An empty
	// version is the one that is installed, or pinned, for use. A digest, if
	// not empty, is that of one of the bundle's artefacts. An error that wraps
	// fs.ErrNotExist says that there is none.
	Find(name, version, digest string) (directory string, err error)
	// Replaces reports whether the bundle that is installed for use takes the place
	// of the one of that name in Config.Directories.
	Replaces(name string) bool
	// Builds are the digests of the bundles of that name and version among which
	// nobody chose: none where one is in use, or where there is one at most.
	Builds(name, version string) []string
}

// What holds where the configuration says nothing.
const (
	defaultCallTimeout  = 100 * time.Millisecond
	defaultStartTimeout = 10 * time.Second
)

func (c *Config) defaults() {
	if c.CallTimeout <= 0 {
		c.CallTimeout = defaultCallTimeout
	}
	if c.StartTimeout <= 0 {
		c.StartTimeout = defaultStartTimeout
	}
	if c.StopTimeout <= 0 {
		c.StopTimeout = 10 * time.Second
	}
	if c.MemoryLimit <= 0 {
		c.MemoryLimit = wasm.DefaultMemoryLimit
	}
	if c.Users.Count <= 0 {
		c.Users = process.Users{First: 60706, Count: 478}
	}
}
