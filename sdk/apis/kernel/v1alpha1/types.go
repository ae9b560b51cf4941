package v1alpha1

import (
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// Plugin is one predicate, priority, controller, runtime, proxy or API server that the
// kernel loads from a bundle. The name of the object is the name of the
// plugin. Several plugins may come from one bundle and then share its process
// or WASM module.
type Plugin struct {
	metav1.TypeMeta `json:",inline"`
	// Standard object's metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// What shall run, and how.
	// +optional
	Spec PluginSpec `json:"spec,omitempty"`

	// What runs, as the plugin host last saw it.
	// +optional
	Status PluginStatus `json:"status,omitempty"`
}

const (
	// ConfiguredAnnotation holds, as JSON, the fields of the spec that the
	// kernel's configuration last said. A field that differs from it is an
	// operator's; one whose configured value changes takes the new value.
	ConfiguredAnnotation = "kernel.pintle.dev/configured"

	// PluginLabel of an APIService names the plugin that serves it; spec.service is
	// empty then.
	PluginLabel = "kernel.pintle.dev/plugin"

	// PluginConditionReady says whether the plugin answers calls.
	PluginConditionReady = "Ready"
	// PluginConditionAccepted says whether the spec is in force.
	PluginConditionAccepted = "Accepted"
	// PluginConditionConfined is False while the plugin's process runs without walls
	// that plugins.runWithout waives: its reason names them, as WithoutNamespaces.
	// Other plugins do not have it.
	PluginConditionConfined = "Confined"
)

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// PluginList is a list of plugins.
type PluginList struct {
	metav1.TypeMeta `json:",inline"`
	// Standard list metadata.
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`

	// Items is the list of plugins.
	Items []Plugin `json:"items"`
}

// PluginKind says what a plugin decides or does.
// +enum
type PluginKind string

const (
	// PluginKindPredicate answers whether a pod can run on a node.
	PluginKindPredicate PluginKind = "predicate"
	// PluginKindPriority answers how well a pod would run on a node.
	PluginKindPriority PluginKind = "priority"
	// PluginKindPreEnqueue answers whether a pod may enter the queue.
	PluginKindPreEnqueue PluginKind = "pre-enqueue"
	// PluginKindQueueSort orders the queue.
	PluginKindQueueSort PluginKind = "queue-sort"
	// PluginKindPreFilter narrows the nodes down, once a class of pods.
	PluginKindPreFilter PluginKind = "pre-filter"
	// PluginKindPostFilter says what could be done for a pod that fits nowhere.
	PluginKindPostFilter PluginKind = "post-filter"
	// PluginKindPreScore is told which nodes fit before they are scored.
	PluginKindPreScore PluginKind = "pre-score"
	// PluginKindReserve keeps count of what pods are given on their nodes.
	PluginKindReserve PluginKind = "reserve"
	// PluginKindPermit approves, refuses or holds up a binding.
	PluginKindPermit PluginKind = "permit"
	// PluginKindPreBind does what must be done before a binding.
	PluginKindPreBind PluginKind = "pre-bind"
	// PluginKindBind binds a pod to its node.
	PluginKindBind PluginKind = "bind"
	// PluginKindPostBind is told of bindings.
	PluginKindPostBind PluginKind = "post-bind"
	// PluginKindController drives objects towards what they ask for.
	PluginKindController PluginKind = "controller"
	// PluginKindAdmission changes or refuses requests to the API.
	PluginKindAdmission PluginKind = "admission"
	// PluginKindRuntime provides a container runtime behind CRI.
	PluginKindRuntime PluginKind = "runtime"
	// PluginKindProxy programs the data path of services.
	PluginKindProxy PluginKind = "proxy"
	// PluginKindNetwork connects pods of several machines.
	PluginKindNetwork PluginKind = "network"
	// PluginKindAPIServer serves group versions of the API at a socket of its own.
	PluginKindAPIServer PluginKind = "apiserver"
	// PluginKindCloud is a cloud provider, with the controllers that work by it.
	PluginKindCloud PluginKind = "cloud"
	// PluginKindUnknown stands for a bundle that cannot be read.
	PluginKindUnknown PluginKind = "unknown"
)

// PluginTransport says how a plugin is run.
// +enum
type PluginTransport string

const (
	// PluginTransportWASM runs the plugin in a sandbox inside the kernel.
	PluginTransportWASM PluginTransport = "wasm"
	// PluginTransportProcess runs the plugin as a process of its own.
	PluginTransportProcess PluginTransport = "process"
)

// PluginFailurePolicy says what a failing call of a plugin counts as.
// +enum
type PluginFailurePolicy string

const (
	// PluginFailureRefuse counts a failed predicate as a refusal of the node.
	PluginFailureRefuse PluginFailurePolicy = "refuse"
	// PluginFailureIgnore leaves the failed plugin out of the decision.
	PluginFailureIgnore PluginFailurePolicy = "ignore"
)

// PluginScope says what an answer of a predicate or priority depends on.
// +enum
type PluginScope string

const (
	// PluginScopeNodeObject: the pod's class and the one node without its pods.
	PluginScopeNodeObject PluginScope = "node-object"
	// PluginScopeNode: the pod's class and the one node alone.
	PluginScopeNode PluginScope = "node"
	// PluginScopeCluster: other nodes or other pods too.
	PluginScopeCluster PluginScope = "cluster"
)

// PluginState is where a plugin is in its life.
// +enum
type PluginState string

const (
	// PluginStatePending: not looked at yet.
	PluginStatePending PluginState = "Pending"
	// PluginStateStarting: being compiled or started, and fed.
	PluginStateStarting PluginState = "Starting"
	// PluginStateReady: answers calls.
	PluginStateReady PluginState = "Ready"
	// PluginStateIdle: nothing uses it, and its process has ended until something does.
	PluginStateIdle PluginState = "Idle"
	// PluginStateBackOff: it ended or failed, and waits before its restart.
	PluginStateBackOff PluginState = "BackOff"
	// PluginStateFailed: it cannot be started as asked; the message says why.
	PluginStateFailed PluginState = "Failed"
	// PluginStateStopping: finishing what it does before it ends.
	PluginStateStopping PluginState = "Stopping"
	// PluginStateDisabled: switched off.
	PluginStateDisabled PluginState = "Disabled"
)

// Serves reports whether a plugin does what it is asked for.
func (s PluginState) Serves() bool { return s == PluginStateReady || s == PluginStateIdle }

// PluginCircuit says whether a plugin is asked.
// +enum
type PluginCircuit string

const (
	// PluginCircuitClosed: it is asked.
	PluginCircuitClosed PluginCircuit = "Closed"
	// PluginCircuitOpen: it is left alone for a while.
	PluginCircuitOpen PluginCircuit = "Open"
	// PluginCircuitHalfOpen: the next question tries it.
	PluginCircuitHalfOpen PluginCircuit = "HalfOpen"
)

// PluginSpec says what shall run, and how.
type PluginSpec struct {
	// Name of the bundle that provides the plugin.
	Bundle string `json:"bundle"`

	// What the plugin is: predicate, priority, controller, admission, runtime, proxy,
	// apiserver, cloud, or another point of the scheduling cycle: pre-enqueue, queue-sort, pre-filter,
	// post-filter, pre-score, reserve, permit, pre-bind, bind or post-bind.
	Kind PluginKind `json:"kind"`

	// How the plugin is run: wasm (in a sandbox inside the kernel) or process
	// (a process of its own). Empty means wasm where the bundle has a module,
	// process otherwise.
	// +optional
	Transport PluginTransport `json:"transport,omitempty"`

	// Version of the bundle, as its manifest says. A change turns to another
	// version that is installed, while the kernel runs.
	// +optional
	Version string `json:"version,omitempty"`

	// Digest that the artefact must have: sha256: and 64 hexadecimal digits.
	// Empty means the one that the bundle's manifest says.
	// +optional
	Digest string `json:"digest,omitempty"`

	// Whether the plugin runs. Defaults to true.
	// +optional
	Enabled *bool `json:"enabled,omitempty"`

	// Scheduler profiles, by their schedulerName, in which the plugin is used
	// while it is enabled. Empty means the first profile. Predicates,
	// priorities and other plugins of the scheduler only.
	// +optional
	// +listType=set
	Profiles []string `json:"profiles,omitempty"`

	// What a failing call counts as: refuse (the node is refused) or ignore
	// (the plugin is left out of the decision). Predicates and priorities
	// only. Empty means what the bundle's manifest says.
	// +optional
	OnFailure PluginFailurePolicy `json:"onFailure,omitempty"`

	// Deadline of one call. Empty means the kernel's default.
	// +optional
	Timeout *metav1.Duration `json:"timeout,omitempty"`

	// Ceilings of what the plugin may use.
	// +optional
	Limits *PluginLimits `json:"limits,omitempty"`

	// Of the host functions that the manifest of a bundle's WASM module asks for,
	// those that it has: get, list, create, update, patch, delete, event. Empty
	// means what the kernel's configuration grants. They are the bundle's: its
	// plugins share them.
	// +optional
	// +listType=set
	HostFunctions []string `json:"hostFunctions,omitempty"`

	// Factor of the plugin's score. Priorities only; 1 or greater. Where the
	// kernel's configuration gives it one factor a profile, this is that of the
	// first; changed here, it counts in all of them.
	// +optional
	Weight *int64 `json:"weight,omitempty"`

	// The plugin's own configuration; its shape is the plugin's.
	// +optional
	Config *runtime.RawExtension `json:"config,omitempty"`

	// What the plugin may do with the API, of what its manifest asks for.
	// +optional
	// +listType=atomic
	Permissions []PluginPermission `json:"permissions,omitempty"`

	// Of the requests that the bundle's manifest asks to review, those that the
	// plugin is asked about. Empty means all of them. Admission plugins only.
	// +optional
	// +listType=atomic
	AdmissionRules []PluginAdmissionRule `json:"admissionRules,omitempty"`

	// A candidate version of the bundle that runs beside the present one: it is
	// asked what that is asked, and its answers are compared and never used.
	// Predicates and priorities only.
	// +optional
	Shadow *PluginShadowSpec `json:"shadow,omitempty"`

	// Turns the plugin's bundle back to what was in force together: its version,
	// and the configurations and permissions of its plugins. The plugin host then
	// writes those into the specs, and removes this.
	// +optional
	RollbackTo *PluginRollback `json:"rollbackTo,omitempty"`
}

// PluginRollback names what a bundle is turned back to.
type PluginRollback struct {
	// One of the revisions in status.previous. 0 is the last one.
	// +optional
	Revision int64 `json:"revision,omitempty"`
}

// PluginAdmissionRule is a set of requests to the API.
type PluginAdmissionRule struct {
	// CREATE, UPDATE, DELETE or CONNECT.
	// +listType=atomic
	Operations []string `json:"operations"`

	// Resources as version/resource or group/version/resource, with /subresource
	// behind it where that is meant. Each part may be *, which does not include
	// Secrets, tokens, reviews of access, RBAC and Plugins: those are named.
	// +listType=atomic
	Resources []string `json:"resources"`
}

// PluginShadowSpec names a candidate version of a bundle. At least one of its
// fields is set.
type PluginShadowSpec struct {
	// Version of the candidate, as its manifest says.
	// +optional
	Version string `json:"version,omitempty"`

	// Digest of the candidate's artefact: sha256: and 64 hexadecimal digits.
	// +optional
	Digest string `json:"digest,omitempty"`
}

// PluginLimits are ceilings of what a plugin may use. The lower one of these and
// of what the bundle's manifest says counts. They are the bundle's: its plugins
// share them.
type PluginLimits struct {
	// Memory that the WASM module or the process may use.
	// +optional
	Memory *resource.Quantity `json:"memory,omitempty"`

	// CPU that the process may use. Processes only.
	// +optional
	CPU *resource.Quantity `json:"cpu,omitempty"`

	// Calls a second to the API or to host functions. More are held up for a
	// moment and then refused.
	// +optional
	CallsPerSecond *int32 `json:"callsPerSecond,omitempty"`

	// Processes and threads that the plugin's process may be. Processes only.
	// +optional
	PIDs *int32 `json:"pids,omitempty"`
}

// PluginStatus is what runs, as the plugin host last saw it.
type PluginStatus struct {
	// Where the plugin is in its life: Pending, Starting, Ready, Idle, BackOff,
	// Failed, Stopping or Disabled.
	// +optional
	State PluginState `json:"state,omitempty"`

	// Why the plugin is in this state, in words.
	// +optional
	Message string `json:"message,omitempty"`

	// When the state last changed.
	// +optional
	LastTransition *metav1.Time `json:"lastTransition,omitempty"`

	// Name of the bundle that provides the plugin.
	// +optional
	Bundle string `json:"bundle,omitempty"`

	// How the plugin is run: wasm or process.
	// +optional
	Transport PluginTransport `json:"transport,omitempty"`

	// Version that runs.
	// +optional
	Version string `json:"version,omitempty"`

	// Digest of the artefact that runs.
	// +optional
	Digest string `json:"digest,omitempty"`

	// Process id. Processes only.
	// +optional
	PID int32 `json:"pid,omitempty"`

	// How often the plugin was started again since the kernel started.
	// +optional
	Restarts int32 `json:"restarts,omitempty"`

	// Calls answered since the kernel started.
	// +optional
	Calls int64 `json:"calls,omitempty"`

	// Calls that failed since the kernel started: errors, missed deadlines,
	// traps and answers out of range.
	// +optional
	Failures int64 `json:"failures,omitempty"`

	// The time within which 99 of 100 recent calls were answered, as a
	// duration such as 85µs or 1.2ms. Empty before the first call.
	// +optional
	P99 string `json:"p99,omitempty"`

	// Whether the plugin is asked: Closed (it is), Open (it failed or was slow
	// again and again, and is left alone for a while) or HalfOpen (the next
	// question tries it). Predicates, priorities and other plugins of the
	// scheduler only.
	// +optional
	Circuit PluginCircuit `json:"circuit,omitempty"`

	// Memory that the bundle uses: the WASM module's, or that of the process
	// with its children and files in the page cache. Empty where nobody counts it.
	// +optional
	Memory *resource.Quantity `json:"memory,omitempty"`

	// Generation of the spec that this status was made from.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// What was in force before, the last one first: what a rollback goes to.
	// +optional
	// +listType=atomic
	Previous []PluginRevision `json:"previous,omitempty"`

	// What the candidate of spec.shadow did.
	// +optional
	Shadow *PluginShadowStatus `json:"shadow,omitempty"`

	// Conditions of the plugin: Ready says whether it answers calls, Accepted
	// whether the spec is in force, and if not, why.
	// +optional
	// +patchMergeKey=type
	// +patchStrategy=merge
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty" patchStrategy:"merge" patchMergeKey:"type"`

	// All that the plugin's bundle provides, this plugin among it. The plugin host alone
	// writes it, as a whole.
	// +optional
	// +listType=atomic
	Provides []ProvidedPlugin `json:"provides,omitempty"`
}

// PluginVersion is one build of a bundle.
type PluginVersion struct {
	// Version, as the bundle's manifest says.
	// +optional
	Version string `json:"version,omitempty"`

	// Digest of the artefact.
	// +optional
	Digest string `json:"digest,omitempty"`
}

// PluginPermission is a rule of RBAC, which counts in the whole cluster or in one
// namespace.
type PluginPermission struct {
	rbacv1.PolicyRule `json:",inline"`

	// The one namespace in which the rule counts. Empty means the whole cluster.
	// +optional
	Namespace string `json:"namespace,omitempty"`
}

// PluginRevision is a version of a bundle with what of the plugin was in force
// together with it.
type PluginRevision struct {
	// Number of the revision, which rises: what spec.rollbackTo names.
	// +optional
	Revision int64 `json:"revision,omitempty"`

	PluginVersion `json:",inline"`

	// The plugin's configuration.
	// +optional
	Config *runtime.RawExtension `json:"config,omitempty"`

	// The plugin's permissions, where an operator narrowed them. Empty means those
	// that the version's manifest asks for.
	// +optional
	// +listType=atomic
	Permissions []PluginPermission `json:"permissions,omitempty"`

	// The plugin's admission rules, where an operator narrowed them. Empty means
	// those that the version's manifest asks for.
	// +optional
	// +listType=atomic
	AdmissionRules []PluginAdmissionRule `json:"admissionRules,omitempty"`

	// The bundle's host functions, where they were narrowed.
	// +optional
	// +listType=atomic
	HostFunctions []string `json:"hostFunctions,omitempty"`
}

// PluginShadowStatus is what a candidate did beside the present version.
type PluginShadowStatus struct {
	// Version of the candidate.
	// +optional
	Version string `json:"version,omitempty"`

	// Digest of the candidate's artefact.
	// +optional
	Digest string `json:"digest,omitempty"`

	// Where the candidate is in its life.
	// +optional
	State PluginState `json:"state,omitempty"`

	// Why the candidate is in this state, in words.
	// +optional
	Message string `json:"message,omitempty"`

	// Since when decisions are compared.
	// +optional
	Since *metav1.Time `json:"since,omitempty"`

	// Decisions that were compared.
	// +optional
	Decisions int64 `json:"decisions,omitempty"`

	// Decisions in which the candidate answered otherwise.
	// +optional
	Disagreements int64 `json:"disagreements,omitempty"`
}

// ProvidedPlugin is one plugin that a bundle provides.
type ProvidedPlugin struct {
	// Name of the plugin.
	Name string `json:"name"`

	// What it is, as spec.kind.
	Kind PluginKind `json:"kind"`

	// What an answer depends on: node (the pod and that node alone) or
	// cluster. Predicates and priorities only.
	// +optional
	Scope PluginScope `json:"scope,omitempty"`

	// Where it is in its life.
	// +optional
	State PluginState `json:"state,omitempty"`
}
