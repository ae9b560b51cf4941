package config

import (
	"encoding/json"
	"time"
)

// The identity of the file format.
const (
	Group      = "config.pintle.dev"
	APIVersion = Group + "/v1alpha1"
	Kind       = "KernelConfiguration"
)

// Config is the whole configuration of a kernel. Tags: mapstructure is the
// key, range the inclusive bounds, enum the allowed words, live marks what
// changes without a restart, doc is one line for people.
type Config struct {
	APIVersion string `mapstructure:"apiVersion" enum:"config.pintle.dev/v1alpha1" doc:"version of this file's format"`
	Kind       string `mapstructure:"kind" enum:"KernelConfiguration" doc:"kind of this file"`

	DataDir    string     `mapstructure:"dataDir" doc:"everything that the kernel keeps: store, keys, kubeconfig, pods; a relative path starts at the working directory"`
	Logging    Logging    `mapstructure:"logging" doc:"the kernel's own log, on standard error"`
	Tracing    Tracing    `mapstructure:"tracing" doc:"spans of requests, scheduling decisions and calls of plugins, sent to a collector of OpenTelemetry"`
	API        API        `mapstructure:"api" doc:"the Kubernetes API server"`
	Auth       Auth       `mapstructure:"auth" doc:"who may come in and what they may do; credentials that the API server gives"`
	Audit      Audit      `mapstructure:"audit" doc:"what is recorded of requests"`
	Memory     Memory     `mapstructure:"memory" doc:"what memory the kernel itself takes"`
	Store      Store      `mapstructure:"store" doc:"where objects are kept, and their watch history"`
	Plugins    Plugins    `mapstructure:"plugins" doc:"where plugins lie and which bundles are loaded"`
	Scheduler  Scheduler  `mapstructure:"scheduler" doc:"which predicates and priorities place pods"`
	Control    Control    `mapstructure:"controllers" doc:"which controllers run"`
	Admission  Admission  `mapstructure:"admission" doc:"which plugins review requests to the API"`
	APIServers APIServers `mapstructure:"apiServers" doc:"which plugins serve group versions of the API"`
	Cloud      Cloud      `mapstructure:"cloud" doc:"which plugin is the cloud provider"`
	Election   Election   `mapstructure:"leaderElection" doc:"which of the kernels on one store does the work that one alone may do; without effect for backend badger"`
	Node       Node       `mapstructure:"node" doc:"the node agent of this machine"`
	Hollow     Hollow     `mapstructure:"hollow" doc:"simulated nodes for scale tests"`

	Features map[string]string `mapstructure:"-" raw:"features" format:"features" doc:"feature gates of Kubernetes 1.36 by name, true or false; one that switches nothing here can be set to what is so anyway"`

	read position
}

// Logging configures the kernel's log.
type Logging struct {
	Level  string `mapstructure:"level" enum:"debug,info,warn,error" live:"true" doc:"least severe level that is written"`
	Format string `mapstructure:"format" enum:"text,json" doc:"one record a line, as text or JSON"`
}

// Tracing configures where spans go to.
type Tracing struct {
	Endpoint               string `mapstructure:"endpoint" format:"endpoint?" doc:"host:port of a collector that takes OTLP over gRPC, without TLS; empty: nothing is traced"`
	SamplingRatePerMillion int    `mapstructure:"samplingRatePerMillion" range:"0,1000000" doc:"how many of a million requests and decisions are traced; those whose client traces them always are"`
}

// API configures the API server.
type API struct {
	BindAddress         string `mapstructure:"bindAddress" format:"ip" doc:"address to listen on"`
	Port                int    `mapstructure:"port" range:"0,65535" doc:"port to listen on; 0 picks a free one"`
	AdvertiseAddress    string `mapstructure:"advertiseAddress" format:"ip?" doc:"address that pods and nodes reach the server at; empty: the machine's own"`
	ServiceCIDR         string `mapstructure:"serviceCIDR" format:"cidrs" doc:"range of cluster IPs, or one of each IP family with a comma between them; services are of the first by default"`
	NodePortRange       string `mapstructure:"nodePortRange" format:"portrange" doc:"range of node ports, first-last"`
	MaxInflight         int    `mapstructure:"maxRequestsInflight" range:"1,1000000" doc:"with maxMutatingRequestsInflight: the seats that priority and fairness shares out; without it: reading requests served at once, more are answered 429"`
	MaxMutatingInflight int    `mapstructure:"maxMutatingRequestsInflight" range:"1,1000000" doc:"see maxRequestsInflight; without priority and fairness: writing requests served at once, more are answered 429"`
	Fairness            bool   `mapstructure:"priorityAndFairness" doc:"requests get their turn by the FlowSchema and PriorityLevelConfiguration objects; false: first come, first served"`
	MaxBodies           Size   `mapstructure:"maxRequestBodies" range:"0,64Gi" doc:"bytes of the bodies of requests that are being served; one user may have a quarter; more are answered 429; 0: no limit"`
	MaxWatches          int    `mapstructure:"maxWatches" range:"0,10000000" doc:"watches and streams (exec, logs) that clients on the network have open; more are answered 429; 0: no limit"`
	MaxUserWatches      int    `mapstructure:"maxWatchesPerUser" range:"0,10000000" doc:"of these, one user's; 0: no limit"`
	MaxConnections      int    `mapstructure:"maxConnections" range:"0,10000000" doc:"connections to the port; a tenth is kept for system:masters; 0: no limit"`
	MaxUserConnections  int    `mapstructure:"maxConnectionsPerUser" range:"0,10000000" doc:"of these, one user's; more are answered 429 and closed; 0: no limit"`
	MaxPeerConnections  int    `mapstructure:"maxConnectionsPerSource" range:"0,10000000" doc:"of these, those of one address on which nobody was authenticated yet; with more the oldest are closed; 0: no limit"`

	RuntimeConfig map[string]string `mapstructure:"-" raw:"runtimeConfig" format:"runtimeConfig" doc:"which versions and resources of the API are served, as kube-apiserver's --runtime-config: group/version or group/version/resource, or api/all, api/ga, api/beta, api/alpha; true or false"`
}

// Auth configures who may come in, what they may do, and the credentials that the API server gives.
type Auth struct {
	MaxTokenExpiration time.Duration `mapstructure:"serviceAccountMaxTokenExpiration" range:"0,1193046h" doc:"the longest that a token of a service account lives; who asks for longer gets this, with a warning; at least 1h; 0: no limit"`
	SigningDuration    time.Duration `mapstructure:"clusterSigningDuration" range:"10m,87600h" doc:"the longest that a certificate of a CertificateSigningRequest lives; a request may ask for less by expirationSeconds"`
	KeyFiles           []string      `mapstructure:"serviceAccountKeyFiles" doc:"PEM files of further keys (public or private, RSA or ECDSA) by which tokens of service accounts are verified, beside those of pki/ in the data directory; they are read again when they change"`

	AuthenticationConfig string        `mapstructure:"authenticationConfig" doc:"file of kind AuthenticationConfiguration (apiserver.config.k8s.io/v1): issuers of tokens (OpenID Connect), and what is open to requests without a credential; it is read again when it changes"`
	ClientCAFiles        []string      `mapstructure:"clientCAFiles" doc:"PEM files of authorities whose client certificates are taken besides those of the cluster's own; they are read again when they change"`
	TokenFile            string        `mapstructure:"tokenFile" doc:"CSV file of tokens, a line each: token, user, uid, groups in quotes; it is read at the start"`
	TokenWebhook         TokenWebhook  `mapstructure:"tokenWebhook" doc:"server that knows whose tokens are"`
	RequestHeader        RequestHeader `mapstructure:"requestHeader" doc:"front proxies, which say in headers who a request is from"`
	BootstrapTokens      bool          `mapstructure:"bootstrapTokens" doc:"Secrets of type bootstrap.kubernetes.io/token in kube-system authenticate machines that join"`

	AuthorizationConfig string `mapstructure:"authorizationConfig" doc:"file of kind AuthorizationConfiguration (apiserver.config.k8s.io/v1): who is asked whether a request is allowed; it is read again when it changes; empty: Node, RBAC"`
}

// TokenWebhook configures who is asked whose a token is.
type TokenWebhook struct {
	ConfigFile string        `mapstructure:"configFile" doc:"kubeconfig of the server that TokenReviews are posted to; empty: none"`
	Version    string        `mapstructure:"version" enum:"v1,v1beta1" doc:"version of the TokenReviews"`
	CacheTTL   time.Duration `mapstructure:"cacheTTL" range:"0,24h" doc:"how long an answer is remembered; 0: it is not"`
}

// RequestHeader configures which front proxies are believed, and by which headers.
type RequestHeader struct {
	ClientCAFile        string   `mapstructure:"clientCAFile" doc:"PEM file of the authorities of front proxies' client certificates; it is read again when it changes; empty: there are no front proxies"`
	AllowedNames        []string `mapstructure:"allowedNames" doc:"common names of their certificates; empty: all"`
	UsernameHeaders     []string `mapstructure:"usernameHeaders" doc:"headers with the user; the first that is there counts"`
	UIDHeaders          []string `mapstructure:"uidHeaders" doc:"headers with the user's uid; the first that is there counts"`
	GroupHeaders        []string `mapstructure:"groupHeaders" doc:"headers with the user's groups"`
	ExtraHeaderPrefixes []string `mapstructure:"extraHeaderPrefixes" doc:"what headers with more about the user begin with"`
}

// Audit configures what is recorded of requests.
type Audit struct {
	PolicyFile    string        `mapstructure:"policyFile" doc:"file of kind Policy (audit.k8s.io/v1): which requests are recorded, and how much of them; empty: who read Secrets, got tokens, ran something in a container, took a backup, changed RBAC, plugins and custom resource definitions"`
	LogPath       string        `mapstructure:"logPath" doc:"file that events go to, one a line as JSON; a relative path is below the data directory; empty: none"`
	LogMaxSize    Size          `mapstructure:"logMaxSize" range:"0,1Ti" doc:"size at which the file is put aside and a new one begun, at least 1Mi; 0: never"`
	LogMaxBackups int           `mapstructure:"logMaxBackups" range:"0,100000" doc:"how many files that were put aside are kept; 0: all"`
	LogMaxAge     time.Duration `mapstructure:"logMaxAge" range:"0,876000h" doc:"how long they are kept, in whole days; 0: no limit"`
	Webhook       string        `mapstructure:"webhookConfigFile" doc:"kubeconfig of the server that events are posted to; empty: none"`
}

// Memory configures what the kernel's own process takes.
type Memory struct {
	Garbage Size `mapstructure:"garbage" range:"1Mi,1Ti" doc:"how much garbage may lie in the kernel's memory before it is collected, besides as much as is alive; more saves processor time while objects come and go; without effect where GOGC or GOMEMLIMIT is set"`
}

// Store configures the store.
type Store struct {
	Backend          string        `mapstructure:"backend" enum:"badger,etcd" doc:"badger: embedded, in the data directory, for one kernel; etcd: servers of their own, which several kernels may share"`
	Etcd             Etcd          `mapstructure:"etcd" doc:"the etcd servers, for backend etcd"`
	EncryptionConfig string        `mapstructure:"encryptionConfig" doc:"file of kind EncryptionConfiguration (apiserver.config.k8s.io/v1): which resources are encrypted, and by what; it is read again when it changes; empty: none"`
	EncryptionKey    string        `mapstructure:"encryptionKeyFile" doc:"file with the keys by which everything in the badger store is encrypted, one a line, base64 of 16, 24 or 32 bytes, mode 0600; the first encrypts, the others are former ones; empty: no encryption"`
	HistoryRetention time.Duration `mapstructure:"historyRetention" range:"10s,720h" doc:"how long a revision can be watched from and read at"`
	HistoryRevisions int64         `mapstructure:"historyRevisions" range:"1000,1000000000" doc:"how many revisions are kept at most"`
	MinFree          Size          `mapstructure:"minFree" range:"0,1Ti" doc:"free disk space below which writes are refused"`
	ListEncodings    Size          `mapstructure:"listEncodings" range:"0,64Gi" doc:"memory for the encodings of listed objects, which lists soon after are put together from; they are given back half a minute after the last list; 0: none are kept"`
}

// Etcd configures the etcd backend.
type Etcd struct {
	Servers        []string `mapstructure:"servers" doc:"URLs of the etcd members, such as https://10.0.0.5:2379"`
	CertFile       string   `mapstructure:"certFile" doc:"client certificate for etcd, PEM; empty: none is shown"`
	KeyFile        string   `mapstructure:"keyFile" doc:"key of certFile, PEM"`
	CAFile         string   `mapstructure:"caFile" doc:"authorities that etcd's certificates are checked against, PEM; empty: the system's"`
	Prefix         string   `mapstructure:"prefix" doc:"what all keys begin with; kernels of one prefix are one cluster"`
	ClusterKeyFile string   `mapstructure:"clusterKeyFile" doc:"file with the secret that the kernels of one cluster share (32 random bytes or more, mode 0600); with it they hand each other the cluster's CA and token key through etcd; empty: pki/ca.crt, ca.key and sa.key of the data directory are copied by hand"`
}

// Plugins configures the plugin host.
type Plugins struct {
	Directories  []string      `mapstructure:"directories" doc:"where bundles are looked for, first match wins; empty: the folder plugins beside the binary"`
	CallTimeout  time.Duration `mapstructure:"callTimeout" range:"1ms,1m" live:"true" doc:"deadline of one call of a predicate or priority"`
	StartTimeout time.Duration `mapstructure:"startTimeout" range:"1s,10m" doc:"how long a plugin's process may take until it says how it is reached, and a module until it is ready"`
	MemoryLimit  Size          `mapstructure:"memoryLimit" range:"1Mi,4Gi" doc:"memory ceiling of a WASM module"`
	ProcessMem   Size          `mapstructure:"processMemoryLimit" range:"0,1Ti" doc:"memory ceiling of a plugin's process with its children, where the kernel is root; 0: none"`
	Processes    int           `mapstructure:"processLimit" range:"0,1000000" doc:"how many processes and threads a plugin's process may be, where the kernel is root; 0: no limit"`
	Calls        int           `mapstructure:"callsPerSecond" range:"0,1000000" doc:"how many requests a second one plugin may make to the API; more are held up, and refused after a second; 0: no limit"`
	UIDRange     string        `mapstructure:"uidRange" format:"idrange?" doc:"user ids for processes of plugins, one for each bundle, where the kernel is root; a kernel that is root needs one"`
	RunWithout   []string      `mapstructure:"runWithout" enum:"cgroup,namespaces,ptrace,seccomp" doc:"walls that processes of plugins may run without where this machine cannot put them up: cgroup (limits), namespaces (own files, process ids, network), ptrace (held until their digest is compared), seccomp (filter of system calls); without one that is not named, a process does not start"`
	WASMWorker   string        `mapstructure:"wasmWorker" enum:"none,installed,all" doc:"which WASM modules run in a process of their own, behind the walls of plugins' processes: none, those of installed bundles, or all; the others run in the kernel's process"`
	Catalog      string        `mapstructure:"catalog" doc:"folder of the bundles that pintle plugin install takes in; empty: catalog in the data directory"`
	LockFile     string        `mapstructure:"lockFile" doc:"file that pins the installed bundles, which are loaded; empty: plugins.lock in the data directory"`
	Signatures   string        `mapstructure:"signatures" enum:"off,warn,require" doc:"what becomes of an installed bundle that no key of plugins.keys signed, at install and at each start"`
	Keys         []string      `mapstructure:"keys" doc:"files of public keys (PEM, as cosign.pub) by which installed bundles may be signed"`
	Bundles      []Bundle      `mapstructure:"bundles" live:"true" doc:"the bundles to load"`
}

// Bundle is one plugin bundle to load.
type Bundle struct {
	Name      string `mapstructure:"name" required:"true" doc:"name of the bundle's folder"`
	Transport string `mapstructure:"transport" enum:"wasm,process" doc:"how it runs; default: wasm where the bundle has a module, process otherwise"`
	Digest    string `mapstructure:"digest" format:"digest?" doc:"sha256:… of the bundle, as pintle plugin install prints it, or that the artefact must have; empty: what its manifest says. A grant to an installed bundle needs the former"`
	OnFailure string `mapstructure:"onFailure" enum:"refuse,ignore" doc:"what a failing predicate counts as: refuse the node, or ignore the predicate; default: the manifest's"`
	Limits    Limits `mapstructure:"limits" doc:"what the bundle may use at most; the lower one of this and of what its manifest says counts"`
	// Privileged and Files grant what the manifest asks for.
	Privileged bool     `mapstructure:"privileged" doc:"its process has the kernel's user and rights, if its manifest asks for them"`
	Network    bool     `mapstructure:"network" doc:"its process has the machine's network, if its manifest asks for it; without it there are unix sockets alone"`
	LowPorts   bool     `mapstructure:"lowPorts" doc:"its process may listen at ports of that network below 1024, if its manifest asks for it"`
	Files      []string `mapstructure:"files" doc:"folders of this machine that its WASM module may read, if its manifest asks for them"`
	// HostFunctions narrow down what the manifest asks for.
	HostFunctions []string        `mapstructure:"hostFunctions" doc:"host functions that controllers of its WASM module may call; default: all that its manifest asks for"`
	Config        json.RawMessage `mapstructure:"-" raw:"config" doc:"the bundle's own configuration"`
}

// Limits are ceilings of what one bundle may use; empty or 0 is that of all bundles.
type Limits struct {
	Memory         Size   `mapstructure:"memory" range:"0,1Ti" doc:"memory of the WASM module or of the process with its children"`
	CPU            string `mapstructure:"cpu" format:"cpu?" doc:"CPU of the process with its children, such as 500m"`
	CallsPerSecond int    `mapstructure:"callsPerSecond" range:"0,1000000" doc:"requests a second to the API, or calls of host functions"`
	PIDs           int    `mapstructure:"pids" range:"0,1000000" doc:"processes and threads"`
}

// Scheduler configures the scheduling cycle.
type Scheduler struct {
	Enabled        bool          `mapstructure:"enabled" doc:"run the scheduler in this kernel"`
	Seed           int64         `mapstructure:"seed" range:"0,9223372036854775807" doc:"seed of the choice between tied nodes; 0 takes the clock"`
	InitialBackoff time.Duration `mapstructure:"podInitialBackoff" range:"1ms,1h" doc:"first wait of a pod that could not be placed"`
	MaxBackoff     time.Duration `mapstructure:"podMaxBackoff" range:"1ms,1h" doc:"longest wait of a pod that could not be placed"`
	Unschedulable  time.Duration `mapstructure:"podMaxInUnschedulablePods" range:"1s,24h" doc:"a pod that could not be placed is tried again after this long, if nothing helped it before"`
	Profiles       []Profile     `mapstructure:"profiles" live:"true" doc:"one set of predicates and priorities a scheduler name"`
	Extenders      []Extender    `mapstructure:"extenders" doc:"HTTP servers that take part in scheduling, of all profiles, in this order"`
}

// Extender is an HTTP server that kube-scheduler's extender protocol is spoken with.
// An empty verb is what it is not asked for.
type Extender struct {
	URLPrefix        string        `mapstructure:"urlPrefix" required:"true" format:"url" doc:"where it is; verbs are added to it"`
	FilterVerb       string        `mapstructure:"filterVerb" doc:"verb that asks which nodes fit"`
	PrioritizeVerb   string        `mapstructure:"prioritizeVerb" doc:"verb that asks how well they do"`
	Weight           int64         `mapstructure:"weight" range:"0,1000000" doc:"factor of its scores, which are 0 to 10"`
	BindVerb         string        `mapstructure:"bindVerb" doc:"verb that has it bind; one extender may"`
	PreemptVerb      string        `mapstructure:"preemptVerb" doc:"verb that asks which victims may be"`
	HTTPTimeout      time.Duration `mapstructure:"httpTimeout" range:"0s,10m" doc:"deadline of one call; 0: 5s"`
	EnableHTTPS      bool          `mapstructure:"enableHTTPS" doc:"without an authority in tls, the server's certificate is not checked"`
	TLS              ExtenderTLS   `mapstructure:"tls" doc:"how to speak TLS with it"`
	NodeCacheCapable bool          `mapstructure:"nodeCacheCapable" doc:"it knows the nodes and is told their names alone"`
	ManagedResources []string      `mapstructure:"managedResources" doc:"extended resources; it is asked about pods that ask for one of them; none: about all pods"`
	Ignorable        bool          `mapstructure:"ignorable" doc:"pods are placed without it while it fails"`
}

// ExtenderTLS is how to speak TLS with an extender.
type ExtenderTLS struct {
	Insecure   bool   `mapstructure:"insecure" doc:"do not check the server's certificate"`
	ServerName string `mapstructure:"serverName" doc:"name that the certificate is checked for; empty: the host of the URL"`
	CertFile   string `mapstructure:"certFile" doc:"client certificate, PEM"`
	KeyFile    string `mapstructure:"keyFile" doc:"key of certFile, PEM"`
	CAFile     string `mapstructure:"caFile" doc:"authorities that the server's certificate is checked against, PEM"`
}

// Profile is an ordered set of predicates and priorities for one schedulerName.
type Profile struct {
	SchedulerName string     `mapstructure:"schedulerName" required:"true" doc:"pods with this spec.schedulerName are placed by this profile"`
	Predicates    []string   `mapstructure:"predicates" doc:"names of predicates, asked in this order"`
	Priorities    []Priority `mapstructure:"priorities" doc:"names and weights of priorities"`
	PreEnqueue    []string   `mapstructure:"preEnqueue" doc:"names of plugins that say whether a pod may enter the queue"`
	QueueSort     string     `mapstructure:"queueSort" doc:"name of the plugin that orders the queue; all profiles name the same"`
	PreFilter     []string   `mapstructure:"preFilter" doc:"names of plugins that narrow the nodes down"`
	PostFilter    []string   `mapstructure:"postFilter" doc:"names of plugins that are asked when no node is left"`
	PreScore      []string   `mapstructure:"preScore" doc:"names of plugins that are told which nodes fit"`
	Reserve       []string   `mapstructure:"reserve" doc:"names of plugins that reserve on the node"`
	Permit        []string   `mapstructure:"permit" doc:"names of plugins that approve, refuse or hold up a binding"`
	PreBind       []string   `mapstructure:"preBind" doc:"names of plugins that act before the binding"`
	Bind          []string   `mapstructure:"bind" doc:"names of plugins that bind, in this order; DefaultBinder is the kernel, which binds if the list is empty and otherwise only if it is named"`
	PostBind      []string   `mapstructure:"postBind" doc:"names of plugins that are told of bindings"`
	// Config is by plugin, as that of a bundle.
	Config json.RawMessage `mapstructure:"-" raw:"config" doc:"configuration of plugins in this profile alone, by plugin, in the place of their bundle's"`
}

// Priority is a priority with its weight.
type Priority struct {
	Name   string `mapstructure:"name" required:"true" doc:"name of the priority"`
	Weight int64  `mapstructure:"weight" range:"1,1000000" doc:"factor of its score"`
}

// Control configures the controllers.
type Control struct {
	Enabled  []string   `mapstructure:"enabled" live:"true" doc:"names of the controllers to run"`
	OnDemand []OnDemand `mapstructure:"onDemand" live:"true" doc:"controllers that run from the first object on that asks for them, until the kernel ends; after a restart, if there is such an object"`
	Disable  []string   `mapstructure:"disable" enum:"csrsigning" doc:"controllers that are part of the kernel, and are not to run: csrsigning (upstream's certificatesigningrequest-signing-controller)"`
}

// OnDemand is a controller that starts when an object asks for it.
type OnDemand struct {
	Name    string         `mapstructure:"name" required:"true" doc:"name of the controller"`
	Objects []DemandObject `mapstructure:"objects" doc:"objects that ask for it; one of them is enough"`
}

// DemandObject describes objects of one resource, in any namespace.
type DemandObject struct {
	Group    string        `mapstructure:"group" doc:"group of the API; empty: the core group"`
	Version  string        `mapstructure:"version" required:"true" doc:"version of the group, such as v1"`
	Resource string        `mapstructure:"resource" required:"true" doc:"resource, in lower case and plural, such as ingresses; one that is not served yet is waited for"`
	Fields   []DemandField `mapstructure:"fields" doc:"members that an object has, all of them; none: every object asks"`
}

// DemandField is a member of an object.
type DemandField struct {
	Path   string   `mapstructure:"path" required:"true" doc:"names with dots between them, such as spec.ingressClassName or metadata.annotations['example.com/name']"`
	Values []string `mapstructure:"values" doc:"what it is, one of these; an empty one stands for a member that is not there"`
}

// APIServers configures the plugins that serve group versions of the API.
type APIServers struct {
	Enabled []string `mapstructure:"enabled" live:"true" doc:"names of the API servers to run"`
}

// Cloud configures the cloud provider.
type Cloud struct {
	Provider string `mapstructure:"provider" live:"true" doc:"name of the plugin that gives services of type LoadBalancer their addresses and knows nodes; empty: none, or a controller of your own"`
}

// Admission configures the plugins that may change or refuse requests.
type Admission struct {
	Enabled []string `mapstructure:"enabled" live:"true" doc:"names of the admission plugins, in the order in which they are asked"`

	Enable          []string        `mapstructure:"enable" doc:"built-in admission plugins to run besides those that do by default, by their names in kube-apiserver's --enable-admission-plugins"`
	Disable         []string        `mapstructure:"disable" doc:"built-in admission plugins not to run"`
	Config          string          `mapstructure:"config" doc:"file of kind AdmissionConfiguration (apiserver.config.k8s.io/v1): what built-in admission plugins are configured by; it is read at the start"`
	PodSecurity     json.RawMessage `mapstructure:"-" raw:"podSecurity" doc:"defaults and exemptions of PodSecurity, as in a PodSecurityConfiguration (pod-security.admission.config.k8s.io/v1)"`
	PodSecurityFile string          `mapstructure:"podSecurityFile" doc:"a file of that kind instead; it is read at the start"`

	EventRateLimit     json.RawMessage `mapstructure:"-" raw:"eventRateLimit" doc:"limits of EventRateLimit, as in a Configuration (eventratelimit.admission.k8s.io/v1alpha1)"`
	EventRateLimitFile string          `mapstructure:"eventRateLimitFile" doc:"a file of that kind instead; it is read at the start"`
}

// Election configures the Leases behind which scheduler and controllers run
// where several kernels share a store.
type Election struct {
	LeaseDuration time.Duration `mapstructure:"leaseDuration" range:"1s,10m" doc:"how long others wait for a leader that is silent before one of them takes over"`
	RenewDeadline time.Duration `mapstructure:"renewDeadline" range:"500ms,10m" doc:"how long a leader that cannot renew its Lease goes on before it stops"`
	RetryPeriod   time.Duration `mapstructure:"retryPeriod" range:"100ms,1m" doc:"how often a Lease is renewed, and tried for"`
}

// The values of node.onStop.
const (
	KeepPods = "keep"
	StopPods = "stop"
)

// Node configures the node agent.
type Node struct {
	Enabled      bool     `mapstructure:"enabled" doc:"run a node agent on this machine"`
	Name         string   `mapstructure:"name" doc:"name of the node; empty: the host name"`
	Address      string   `mapstructure:"address" format:"ips?" doc:"the node's InternalIP, or one of each IP family with a comma between them, in the order of api.serviceCIDR; empty: the address of the default route, else 127.0.0.1"`
	KubeletPort  int      `mapstructure:"kubeletPort" range:"0,65535" doc:"port of the node agent's HTTPS server; 0 picks a free one"`
	Runtime      string   `mapstructure:"runtime" doc:"name of the runtime plugin"`
	Proxies      []string `mapstructure:"proxies" doc:"names of service proxies; the first that this machine can run is used"`
	DNS          string   `mapstructure:"dns" doc:"name of the plugin that answers the cluster's DNS on this node, as service kube-system/kube-dns; empty: none"`
	Policies     string   `mapstructure:"networkPolicy" doc:"name of the plugin that enforces network policies for the pods of this node; empty: nothing does"`
	Announcer    string   `mapstructure:"announcer" doc:"name of the plugin by which other machines of this node's network find addresses of load balancers that lie in it; empty: nothing announces them"`
	PodCIDR      string   `mapstructure:"podCIDR" format:"cidrs?" doc:"range of pod IPs on this node, or one of each IP family with a comma between them, in the order of api.serviceCIDR; empty: what the Node object is given, such as by the controller nodeipam"`
	ClusterCIDRs []string `mapstructure:"clusterCIDRs" format:"cidr" doc:"ranges in which the pods of all nodes are: what pods send there keeps their addresses, what they send elsewhere has the node's; none: node.podCIDR alone"`
	Network      string   `mapstructure:"network" doc:"name of the plugin that connects pods of this node with those of other nodes, by routes or otherwise; it needs clusterCIDRs; empty: nothing does"`
	MaxPods      int      `mapstructure:"maxPods" range:"1,100000" doc:"most pods that may run here"`

	OnStop              string        `mapstructure:"onStop" enum:"keep,stop" doc:"what a stop of the kernel does to its pods: keep leaves them running for the next start, stop ends and removes them"`
	ShutdownGracePeriod time.Duration `mapstructure:"shutdownGracePeriod" range:"1s,24h" doc:"the most that a container gets to end when onStop is stop; less where its pod's terminationGracePeriodSeconds is less"`

	ImagePullVerification    string   `mapstructure:"imagePullCredentialsVerificationPolicy" enum:"NeverVerify,NeverVerifyPreloadedImages,NeverVerifyAllowlistedImages,AlwaysVerify" doc:"for which images that are on the node a pod needs credentials with which it could pull them"`
	PreloadedImagesAllowlist []string `mapstructure:"preloadedImagesVerificationAllowlist" doc:"images of NeverVerifyAllowlistedImages, without tag and digest, or all below a path: registry.example.com/team/*"`

	SeccompDefault bool `mapstructure:"seccompDefault" doc:"containers that name no seccomp profile get the runtime's, RuntimeDefault"`
	SeccompWaived  bool `mapstructure:"seccompWaived" doc:"where the runtime has no seccomp, containers run without their profile RuntimeDefault instead of not starting"`

	Labels map[string]string `mapstructure:"-" raw:"labels" doc:"labels that the node registers with; of a node that is there already, the well-known ones alone are set"`

	// What follows is named as KubeletConfiguration names it.
	RegisterWithTaints []Taint `mapstructure:"registerWithTaints" doc:"taints that the node registers with"`
	HostnameOverride   string  `mapstructure:"hostnameOverride" doc:"the node's address of type Hostname; empty: the node's name"`

	ClusterDNS    []string `mapstructure:"clusterDNS" format:"ip" doc:"addresses of the cluster's DNS server, for pods with dnsPolicy ClusterFirst; none: that of node.dns, the tenth of api.serviceCIDR; without it those pods get the machine's resolver, and an event says so"`
	ClusterDomain string   `mapstructure:"clusterDomain" doc:"the cluster's DNS domain, which those pods search"`
	ResolvConf    string   `mapstructure:"resolvConf" doc:"file with the machine's DNS servers, for pods; empty: /etc/resolv.conf, or where that names a server on loopback alone, systemd's /run/systemd/resolve/resolv.conf"`

	KubeReserved           map[string]string `mapstructure:"-" raw:"kubeReserved" format:"reserved" doc:"what of the machine pods do not get, for the kernel, the runtime and plugins: cpu, memory, ephemeral-storage, pid; what is not named: 100m, a tenth of the memory from 256Mi to 2Gi, nothing, 1000"`
	SystemReserved         map[string]string `mapstructure:"-" raw:"systemReserved" format:"reserved" doc:"the same for everything else on the machine"`
	EnforceNodeAllocatable []string          `mapstructure:"enforceNodeAllocatable" enum:"pods,none" doc:"pods: the cgroup of all pods has what is not reserved as its limit; none or empty: it has no limit"`
	CgroupRoot             string            `mapstructure:"cgroupRoot" format:"absolute" doc:"cgroup that the cgroup of all pods, kubepods, is in, where the kernel is root"`

	EvictionHard       map[string]string `mapstructure:"-" raw:"evictionHard" format:"eviction" live:"true" doc:"least that has to be left, by signal, as an amount or a percentage: memory.available, nodefs.available, nodefs.inodesFree, imagefs.available, imagefs.inodesFree, pid.available; less is a pressure of the node, and on its disks pods are evicted; the list given replaces the default, 0 is none"`
	PressureTransition time.Duration     `mapstructure:"evictionPressureTransitionPeriod" range:"0s,1h" live:"true" doc:"how long a pressure is reported after it is over"`

	SerializeImagePulls   bool          `mapstructure:"serializeImagePulls" doc:"pull one image at a time"`
	MaxParallelImagePulls int           `mapstructure:"maxParallelImagePulls" range:"0,1000" doc:"how many images are pulled at once without serializeImagePulls; 0: no limit"`
	ImageMinimumGCAge     time.Duration `mapstructure:"imageMinimumGCAge" range:"1ms,720h" live:"true" doc:"youngest age of an unused image to be removed"`
	ImageGCHigh           int           `mapstructure:"imageGCHighThresholdPercent" range:"1,100" live:"true" doc:"use of the images' file system from which on unused images are removed; 100: never"`
	ImageGCLow            int           `mapstructure:"imageGCLowThresholdPercent" range:"0,100" live:"true" doc:"use of the images' file system down to which they are removed"`

	ContainerLogMaxSize  Size `mapstructure:"containerLogMaxSize" range:"1Ki,1Ti" live:"true" doc:"size of a container's log from which on it is rotated"`
	ContainerLogMaxFiles int  `mapstructure:"containerLogMaxFiles" range:"2,1000" live:"true" doc:"how many files of a container's log are kept"`

	MinimumContainerTTL       time.Duration `mapstructure:"minimumContainerTTLDuration" range:"0s,720h" live:"true" doc:"youngest age of a dead container to be removed"`
	MaxPerPodContainer        int           `mapstructure:"maximumDeadContainersPerContainer" range:"-1,1000" live:"true" doc:"how many former instances of a container are kept; -1: all"`
	MaxDeadContainers         int           `mapstructure:"maximumDeadContainers" range:"-1,100000" live:"true" doc:"how many dead containers are kept in all; -1: no limit"`
	CrashLoopBackOff          CrashBackOff  `mapstructure:"crashLoopBackOff" doc:"restarts of containers that keep ending"`
	SyncFrequency             time.Duration `mapstructure:"syncFrequency" range:"1s,1h" doc:"most time between two looks at a pod"`
	NodeStatusUpdateFrequency time.Duration `mapstructure:"nodeStatusUpdateFrequency" range:"1s,1h" doc:"how often the node's status is computed"`
	NodeStatusReportFrequency time.Duration `mapstructure:"nodeStatusReportFrequency" range:"1s,24h" doc:"how often the node's status is written though nothing changed"`
	NodeLeaseDurationSeconds  int           `mapstructure:"nodeLeaseDurationSeconds" range:"4,86400" doc:"how long the node's Lease is valid; it is renewed each quarter of that"`
	DefaultRuntimeHandler     string        `mapstructure:"defaultRuntimeHandler" doc:"handler of the runtime for pods without a RuntimeClass; empty: the runtime's own default"`
}

// Taint is a taint that the node registers with.
type Taint struct {
	Key    string `mapstructure:"key" required:"true" format:"labelkey" doc:"key of the taint"`
	Value  string `mapstructure:"value" format:"labelvalue" doc:"value of the taint"`
	Effect string `mapstructure:"effect" required:"true" enum:"NoSchedule,PreferNoSchedule,NoExecute" doc:"what becomes of pods that do not tolerate it"`
}

// CrashBackOff configures the waits before restarts.
type CrashBackOff struct {
	MaxContainerRestartPeriod time.Duration `mapstructure:"maxContainerRestartPeriod" range:"1s,5m" doc:"longest wait before a container that keeps ending is restarted"`
}

// HollowPodRange holds the pod IPs of all hollow nodes, a /25 for each.
const HollowPodRange = "10.128.0.0/9"

// Hollow configures simulated nodes, which run no containers.
type Hollow struct {
	Runtime string `mapstructure:"runtime" doc:"name of the runtime plugin that simulates containers"`
	Nodes   int    `mapstructure:"nodes" range:"0,65536" doc:"how many hollow nodes to run beside the real one"`
	Prefix  string `mapstructure:"prefix" doc:"their names are this and a number"`

	LeaseDuration         time.Duration `mapstructure:"leaseDuration" range:"4s,24h" doc:"how long the Lease of a hollow node is valid; it is renewed each quarter of that"`
	StatusReportFrequency time.Duration `mapstructure:"statusReportFrequency" range:"10s,24h" doc:"how often the status of a hollow node is computed, and written though nothing changed"`
}
