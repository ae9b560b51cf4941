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
	Auth       Auth       `mapstructure:"auth" doc:"authentication, authorization, and credentials that the API server issues"`
	Audit      Audit      `mapstructure:"audit" doc:"the audit log of requests"`
	Memory     Memory     `mapstructure:"memory" doc:"memory of the kernel's own process"`
	Store      Store      `mapstructure:"store" doc:"where objects and their watch history are stored"`
	Plugins    Plugins    `mapstructure:"plugins" doc:"where plugins are stored and which bundles are loaded"`
	Scheduler  Scheduler  `mapstructure:"scheduler" doc:"which predicates and priorities place pods"`
	Control    Control    `mapstructure:"controllers" doc:"which controllers run"`
	Admission  Admission  `mapstructure:"admission" doc:"which plugins review requests to the API"`
	APIServers APIServers `mapstructure:"apiServers" doc:"which plugins serve group versions of the API"`
	Cloud      Cloud      `mapstructure:"cloud" doc:"which plugin is the cloud provider"`
	Election   Election   `mapstructure:"leaderElection" doc:"election of the kernel that runs scheduler and controllers, if several share a store; no effect for backend badger"`
	Node       Node       `mapstructure:"node" doc:"the node agent of this machine"`
	Hollow     Hollow     `mapstructure:"hollow" doc:"simulated nodes for scale tests"`

	Features map[string]string `mapstructure:"-" raw:"features" format:"features" doc:"feature gates of Kubernetes 1.36 by name, true or false; a gate that switches nothing here accepts only the value that is true here"`

	read position
}

// Logging configures the kernel's log.
type Logging struct {
	Level  string `mapstructure:"level" enum:"debug,info,warn,error" live:"true" doc:"least severe level that is written"`
	Format string `mapstructure:"format" enum:"text,json" doc:"one record per line, as text or JSON"`
}

// Tracing configures where spans go to.
type Tracing struct {
	Endpoint               string `mapstructure:"endpoint" format:"endpoint?" doc:"host:port of a collector that accepts OTLP over gRPC without TLS; empty: tracing is off"`
	SamplingRatePerMillion int    `mapstructure:"samplingRatePerMillion" range:"0,1000000" doc:"how many requests and decisions per million are traced; those that their client traces are always traced"`
}

// API configures the API server.
type API struct {
	BindAddress         string `mapstructure:"bindAddress" format:"ip" doc:"address to listen on"`
	Port                int    `mapstructure:"port" range:"0,65535" doc:"port to listen on; 0 picks a free one"`
	AdvertiseAddress    string `mapstructure:"advertiseAddress" format:"ip?" doc:"address that pods and nodes reach the server at; empty: the machine's own"`
	ServiceCIDR         string `mapstructure:"serviceCIDR" format:"cidrs" doc:"range of cluster IPs, or one per IP family with a comma between them; services use the first by default"`
	NodePortRange       string `mapstructure:"nodePortRange" format:"portrange" doc:"range of node ports, first-last"`
	MaxInflight         int    `mapstructure:"maxRequestsInflight" range:"1,1000000" doc:"with maxMutatingRequestsInflight: the number of seats that priority and fairness distributes; without priority and fairness: concurrent reading requests, more get 429"`
	MaxMutatingInflight int    `mapstructure:"maxMutatingRequestsInflight" range:"1,1000000" doc:"see maxRequestsInflight; without priority and fairness: concurrent writing requests, more get 429"`
	Fairness            bool   `mapstructure:"priorityAndFairness" doc:"FlowSchema and PriorityLevelConfiguration objects decide the order of requests; false: first come, first served"`
	MaxBodies           Size   `mapstructure:"maxRequestBodies" range:"0,64Gi" doc:"total bytes of the bodies of requests in flight; one user may have a quarter; more get 429; 0: no limit"`
	MaxWatches          int    `mapstructure:"maxWatches" range:"0,10000000" doc:"open watches and streams (exec, logs) of clients on the network; more get 429; 0: no limit"`
	MaxUserWatches      int    `mapstructure:"maxWatchesPerUser" range:"0,10000000" doc:"of these, those of one user; 0: no limit"`
	MaxConnections      int    `mapstructure:"maxConnections" range:"0,10000000" doc:"connections to the port; a tenth is reserved for system:masters; 0: no limit"`
	MaxUserConnections  int    `mapstructure:"maxConnectionsPerUser" range:"0,10000000" doc:"of these, those of one user; more get 429 and are closed; 0: no limit"`
	MaxPeerConnections  int    `mapstructure:"maxConnectionsPerSource" range:"0,10000000" doc:"of these, connections of one address without an authenticated request; above the limit the oldest are closed; 0: no limit"`

	RuntimeConfig map[string]string `mapstructure:"-" raw:"runtimeConfig" format:"runtimeConfig" doc:"versions and resources of the API to serve, as kube-apiserver's --runtime-config: group/version, group/version/resource, api/all, api/ga, api/beta or api/alpha; each true or false"`
}

// Auth configures who may come in, what they may do, and the credentials that the API server gives.
type Auth struct {
	MaxTokenExpiration time.Duration `mapstructure:"serviceAccountMaxTokenExpiration" range:"0,1193046h" doc:"longest lifetime of a service account token; a longer request is shortened, with a warning; at least 1h; 0: no limit"`
	SigningDuration    time.Duration `mapstructure:"clusterSigningDuration" range:"10m,87600h" doc:"longest lifetime of a certificate for a CertificateSigningRequest; a request may ask for less with expirationSeconds"`
	KeyFiles           []string      `mapstructure:"serviceAccountKeyFiles" doc:"PEM files of additional keys (public or private, RSA or ECDSA) that verify service account tokens, beside those of pki/ in the data directory; reloaded when they change"`

	AuthenticationConfig string        `mapstructure:"authenticationConfig" doc:"file of kind AuthenticationConfiguration (apiserver.config.k8s.io/v1): token issuers (OpenID Connect), and paths open to anonymous requests; reloaded when it changes"`
	ClientCAFiles        []string      `mapstructure:"clientCAFiles" doc:"PEM files of authorities whose client certificates are accepted, beside the cluster's own; reloaded when they change"`
	TokenFile            string        `mapstructure:"tokenFile" doc:"CSV file of tokens, one per line: token, user, uid, groups in quotes; read at the start"`
	TokenWebhook         TokenWebhook  `mapstructure:"tokenWebhook" doc:"server that authenticates tokens"`
	RequestHeader        RequestHeader `mapstructure:"requestHeader" doc:"front proxies, which name the user of a request in headers"`
	BootstrapTokens      bool          `mapstructure:"bootstrapTokens" doc:"Secrets of type bootstrap.kubernetes.io/token in kube-system authenticate machines that join"`

	AuthorizationConfig string `mapstructure:"authorizationConfig" doc:"file of kind AuthorizationConfiguration (apiserver.config.k8s.io/v1): the chain of authorizers; reloaded when it changes; empty: Node, RBAC"`
}

// TokenWebhook configures who is asked whose a token is.
type TokenWebhook struct {
	ConfigFile string        `mapstructure:"configFile" doc:"kubeconfig of the server that receives TokenReviews; empty: none"`
	Version    string        `mapstructure:"version" enum:"v1,v1beta1" doc:"version of the TokenReviews"`
	CacheTTL   time.Duration `mapstructure:"cacheTTL" range:"0,24h" doc:"how long an answer is cached; 0: not at all"`
}

// RequestHeader configures which front proxies are believed, and by which headers.
type RequestHeader struct {
	ClientCAFile        string   `mapstructure:"clientCAFile" doc:"PEM file of the authorities of front proxies' client certificates; reloaded when it changes; empty: no front proxies"`
	AllowedNames        []string `mapstructure:"allowedNames" doc:"common names of their certificates; empty: all"`
	UsernameHeaders     []string `mapstructure:"usernameHeaders" doc:"headers with the user; the first present one counts"`
	UIDHeaders          []string `mapstructure:"uidHeaders" doc:"headers with the user's uid; the first present one counts"`
	GroupHeaders        []string `mapstructure:"groupHeaders" doc:"headers with the user's groups"`
	ExtraHeaderPrefixes []string `mapstructure:"extraHeaderPrefixes" doc:"prefixes of headers with extra attributes of the user"`
}

// Audit configures what is recorded of requests.
type Audit struct {
	PolicyFile    string        `mapstructure:"policyFile" doc:"file of kind Policy (audit.k8s.io/v1): which requests are recorded, and in which detail; empty: access to Secrets, tokens, containers and backups, and changes of RBAC, plugins and custom resource definitions"`
	LogPath       string        `mapstructure:"logPath" doc:"file for events, one per line as JSON; a relative path is below the data directory; empty: none"`
	LogMaxSize    Size          `mapstructure:"logMaxSize" range:"0,1Ti" doc:"size at which the file is rotated, at least 1Mi; 0: never"`
	LogMaxBackups int           `mapstructure:"logMaxBackups" range:"0,100000" doc:"how many rotated files are kept; 0: all"`
	LogMaxAge     time.Duration `mapstructure:"logMaxAge" range:"0,876000h" doc:"how long they are kept, in whole days; 0: no limit"`
	Webhook       string        `mapstructure:"webhookConfigFile" doc:"kubeconfig of the server that receives events; empty: none"`
}

// Memory configures what the kernel's own process takes.
type Memory struct {
	Garbage Size `mapstructure:"garbage" range:"1Mi,1Ti" doc:"garbage that is allowed in addition to the size of live memory before a collection; more saves processor time while objects come and go; no effect if GOGC or GOMEMLIMIT is set"`
}

// Store configures the store.
type Store struct {
	Backend          string        `mapstructure:"backend" enum:"badger,etcd" doc:"badger: embedded, in the data directory, for one kernel; etcd: separate servers, which several kernels may share"`
	Etcd             Etcd          `mapstructure:"etcd" doc:"the etcd servers, for backend etcd"`
	EncryptionConfig string        `mapstructure:"encryptionConfig" doc:"file of kind EncryptionConfiguration (apiserver.config.k8s.io/v1): which resources are encrypted, and how; reloaded when it changes; empty: none"`
	EncryptionKey    string        `mapstructure:"encryptionKeyFile" doc:"file with keys that encrypt the whole badger store, one per line, base64 of 16, 24 or 32 bytes, mode 0600; the first encrypts, the others only decrypt; empty: no encryption"`
	HistoryRetention time.Duration `mapstructure:"historyRetention" range:"10s,720h" doc:"how long a watch can start at a revision, and a read can use it"`
	HistoryRevisions int64         `mapstructure:"historyRevisions" range:"1000,1000000000" doc:"maximum number of stored revisions"`
	MinFree          Size          `mapstructure:"minFree" range:"0,1Ti" doc:"free disk space below which writes are rejected"`
	ListEncodings    Size          `mapstructure:"listEncodings" range:"0,64Gi" doc:"memory for encodings of listed objects, which speed up later lists; freed half a minute after the last list; 0: none"`
}

// Etcd configures the etcd backend.
type Etcd struct {
	Servers        []string `mapstructure:"servers" doc:"URLs of the etcd members, such as https://10.0.0.5:2379"`
	CertFile       string   `mapstructure:"certFile" doc:"client certificate for etcd, PEM; empty: none"`
	KeyFile        string   `mapstructure:"keyFile" doc:"key of certFile, PEM"`
	CAFile         string   `mapstructure:"caFile" doc:"authorities that etcd's certificates are checked against, PEM; empty: the system's"`
	Prefix         string   `mapstructure:"prefix" doc:"prefix of all keys; kernels with the same prefix are one cluster"`
	ClusterKeyFile string   `mapstructure:"clusterKeyFile" doc:"file with the secret that the kernels of one cluster share (32 random bytes or more, mode 0600); with it they exchange the cluster's CA and token key through etcd; empty: copy pki/ca.crt, ca.key and sa.key of the data directory yourself"`
}

// Plugins configures the plugin host.
type Plugins struct {
	Directories  []string      `mapstructure:"directories" doc:"folders that are searched for bundles, the first match wins; empty: the folder plugins beside the binary"`
	CallTimeout  time.Duration `mapstructure:"callTimeout" range:"1ms,1m" live:"true" doc:"deadline of one call of a predicate or priority"`
	StartTimeout time.Duration `mapstructure:"startTimeout" range:"1s,10m" doc:"how long a plugin's process may take until it reports its address, and a module until it is ready"`
	MemoryLimit  Size          `mapstructure:"memoryLimit" range:"1Mi,4Gi" doc:"memory limit of a WASM module"`
	ProcessMem   Size          `mapstructure:"processMemoryLimit" range:"0,1Ti" doc:"memory limit of a plugin's process with its children, if the kernel is root; 0: none"`
	Processes    int           `mapstructure:"processLimit" range:"0,1000000" doc:"processes and threads of a plugin's process, if the kernel is root; 0: no limit"`
	Calls        int           `mapstructure:"callsPerSecond" range:"0,1000000" doc:"requests per second of one plugin to the API; more wait, and are rejected after one second; 0: no limit"`
	UIDRange     string        `mapstructure:"uidRange" format:"idrange?" doc:"user ids for processes of plugins, one per bundle; required if the kernel is root"`
	RunWithout   []string      `mapstructure:"runWithout" enum:"cgroup,namespaces,ptrace,seccomp" doc:"parts of the sandbox that processes of plugins may run without if this machine lacks them: cgroup (limits), namespaces (own files, process ids, network), ptrace (stopped until the digest is verified), seccomp (filter of system calls); a process does not start if another part is missing"`
	WASMWorker   string        `mapstructure:"wasmWorker" enum:"none,installed,all" doc:"which WASM modules run in a process of their own, with the sandbox of plugins' processes: none, those of installed bundles, or all; the others run in the kernel's process"`
	Catalog      string        `mapstructure:"catalog" doc:"folder for bundles that pintle plugin install adds; empty: catalog in the data directory"`
	LockFile     string        `mapstructure:"lockFile" doc:"file that pins the installed bundles, which are loaded; empty: plugins.lock in the data directory"`
	Signatures   string        `mapstructure:"signatures" enum:"off,warn,require" doc:"how an installed bundle is treated, at install and at each start, if no key of plugins.keys signed it"`
	Keys         []string      `mapstructure:"keys" doc:"files of public keys (PEM, as cosign.pub) that verify signatures of installed bundles"`
	Bundles      []Bundle      `mapstructure:"bundles" live:"true" doc:"the bundles to load"`
}

// Bundle is one plugin bundle to load.
type Bundle struct {
	Name      string `mapstructure:"name" required:"true" doc:"name of the bundle's folder"`
	Transport string `mapstructure:"transport" enum:"wasm,process" doc:"how it runs; default: wasm where the bundle has a module, process otherwise"`
	Digest    string `mapstructure:"digest" format:"digest?" doc:"required sha256:… of the bundle, as pintle plugin install prints it, or of the artefact; empty: the manifest's. A grant to an installed bundle needs the bundle's digest"`
	OnFailure string `mapstructure:"onFailure" enum:"refuse,ignore" doc:"if a predicate fails: refuse the node, or ignore the predicate; default: the manifest's"`
	Limits    Limits `mapstructure:"limits" doc:"limits of the bundle; the lower one of these and the manifest's counts"`
	// Privileged and Files grant what the manifest asks for.
	Privileged bool     `mapstructure:"privileged" doc:"its process has the kernel's user and rights, if its manifest asks for them"`
	Network    bool     `mapstructure:"network" doc:"its process has the machine's network, if its manifest asks for it; otherwise it has only unix sockets"`
	LowPorts   bool     `mapstructure:"lowPorts" doc:"its process may listen on ports below 1024 of that network, if its manifest asks for it"`
	Files      []string `mapstructure:"files" doc:"folders of this machine that its WASM module may read, if its manifest asks for them"`
	// HostFunctions narrow down what the manifest asks for.
	HostFunctions []string        `mapstructure:"hostFunctions" doc:"host functions that controllers of its WASM module may call; default: all that its manifest asks for"`
	Config        json.RawMessage `mapstructure:"-" raw:"config" doc:"the bundle's own configuration"`
}

// Limits are ceilings of what one bundle may use; empty or 0 is that of all bundles.
type Limits struct {
	Memory         Size   `mapstructure:"memory" range:"0,1Ti" doc:"memory of the WASM module or of the process with its children"`
	CPU            string `mapstructure:"cpu" format:"cpu?" doc:"CPU of the process with its children, such as 500m"`
	CallsPerSecond int    `mapstructure:"callsPerSecond" range:"0,1000000" doc:"requests to the API, or calls of host functions, per second"`
	PIDs           int    `mapstructure:"pids" range:"0,1000000" doc:"processes and threads"`
}

// Scheduler configures the scheduling cycle.
type Scheduler struct {
	Enabled        bool          `mapstructure:"enabled" doc:"run the scheduler in this kernel"`
	Seed           int64         `mapstructure:"seed" range:"0,9223372036854775807" doc:"seed for the choice between nodes with equal totals; 0: the clock"`
	InitialBackoff time.Duration `mapstructure:"podInitialBackoff" range:"1ms,1h" doc:"first wait of a pod that could not be placed"`
	MaxBackoff     time.Duration `mapstructure:"podMaxBackoff" range:"1ms,1h" doc:"longest wait of a pod that could not be placed"`
	Unschedulable  time.Duration `mapstructure:"podMaxInUnschedulablePods" range:"1s,24h" doc:"a pod that could not be placed is retried after this time, even if no event helped it"`
	Profiles       []Profile     `mapstructure:"profiles" live:"true" doc:"one set of predicates and priorities per scheduler name"`
	Extenders      []Extender    `mapstructure:"extenders" doc:"HTTP extenders of all profiles, in this order"`
}

// Extender is an HTTP server that kube-scheduler's extender protocol is spoken with.
// An empty verb is what it is not asked for.
type Extender struct {
	URLPrefix        string        `mapstructure:"urlPrefix" required:"true" format:"url" doc:"its URL; verbs are appended"`
	FilterVerb       string        `mapstructure:"filterVerb" doc:"verb for the question which nodes fit"`
	PrioritizeVerb   string        `mapstructure:"prioritizeVerb" doc:"verb for the scores of nodes"`
	Weight           int64         `mapstructure:"weight" range:"0,1000000" doc:"factor of its scores, which are 0 to 10"`
	BindVerb         string        `mapstructure:"bindVerb" doc:"verb for a binding; only one extender may bind"`
	PreemptVerb      string        `mapstructure:"preemptVerb" doc:"verb for the victims of a preemption"`
	HTTPTimeout      time.Duration `mapstructure:"httpTimeout" range:"0s,10m" doc:"deadline of one call; 0: 5s"`
	EnableHTTPS      bool          `mapstructure:"enableHTTPS" doc:"use TLS; without an authority in tls, the server's certificate is not checked"`
	TLS              ExtenderTLS   `mapstructure:"tls" doc:"TLS settings of the extender"`
	NodeCacheCapable bool          `mapstructure:"nodeCacheCapable" doc:"it has its own cache of nodes and receives only their names"`
	ManagedResources []string      `mapstructure:"managedResources" doc:"extended resources; it handles pods that request one of them; none: all pods"`
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
	PreEnqueue    []string   `mapstructure:"preEnqueue" doc:"names of plugins that admit pods to the queue"`
	QueueSort     string     `mapstructure:"queueSort" doc:"name of the plugin that orders the queue; all profiles name the same"`
	PreFilter     []string   `mapstructure:"preFilter" doc:"names of plugins that reduce the set of nodes"`
	PostFilter    []string   `mapstructure:"postFilter" doc:"names of plugins that run when no node fits"`
	PreScore      []string   `mapstructure:"preScore" doc:"names of plugins that run before scoring, with the nodes that fit"`
	Reserve       []string   `mapstructure:"reserve" doc:"names of plugins that reserve resources on the node"`
	Permit        []string   `mapstructure:"permit" doc:"names of plugins that approve, reject or delay a binding"`
	PreBind       []string   `mapstructure:"preBind" doc:"names of plugins that act before the binding"`
	Bind          []string   `mapstructure:"bind" doc:"names of plugins that bind, in this order; DefaultBinder is the kernel, which binds if the list is empty and otherwise only if it is named"`
	PostBind      []string   `mapstructure:"postBind" doc:"names of plugins that run after a binding"`
	// Config is by plugin, as that of a bundle.
	Config json.RawMessage `mapstructure:"-" raw:"config" doc:"configuration of plugins for this profile only, by plugin; it replaces their bundle's"`
}

// Priority is a priority with its weight.
type Priority struct {
	Name   string `mapstructure:"name" required:"true" doc:"name of the priority"`
	Weight int64  `mapstructure:"weight" range:"1,1000000" doc:"factor of its score"`
}

// Control configures the controllers.
type Control struct {
	Enabled  []string   `mapstructure:"enabled" live:"true" doc:"names of the controllers to run"`
	OnDemand []OnDemand `mapstructure:"onDemand" live:"true" doc:"controllers that start with the first object that needs them and run until the kernel ends; after a restart they start if such an object exists"`
	Disable  []string   `mapstructure:"disable" enum:"csrsigning" doc:"controllers of the kernel that shall not run: csrsigning (upstream's certificatesigningrequest-signing-controller)"`
}

// OnDemand is a controller that starts when an object asks for it.
type OnDemand struct {
	Name    string         `mapstructure:"name" required:"true" doc:"name of the controller"`
	Objects []DemandObject `mapstructure:"objects" doc:"objects that need it; one of them is enough"`
}

// DemandObject describes objects of one resource, in any namespace.
type DemandObject struct {
	Group    string        `mapstructure:"group" doc:"group of the API; empty: the core group"`
	Version  string        `mapstructure:"version" required:"true" doc:"version of the group, such as v1"`
	Resource string        `mapstructure:"resource" required:"true" doc:"resource, in lower case and plural, such as ingresses; the kernel waits for one that is not served yet"`
	Fields   []DemandField `mapstructure:"fields" doc:"fields that an object must have, all of them; none: every object counts"`
}

// DemandField is a member of an object.
type DemandField struct {
	Path   string   `mapstructure:"path" required:"true" doc:"names with dots between them, such as spec.ingressClassName or metadata.annotations['example.com/name']"`
	Values []string `mapstructure:"values" doc:"allowed values; an empty value stands for a missing field"`
}

// APIServers configures the plugins that serve group versions of the API.
type APIServers struct {
	Enabled []string `mapstructure:"enabled" live:"true" doc:"names of the API servers to run"`
}

// Cloud configures the cloud provider.
type Cloud struct {
	Provider string `mapstructure:"provider" live:"true" doc:"name of the plugin for addresses of services of type LoadBalancer and for nodes; empty: none, or your own controller"`
}

// Admission configures the plugins that may change or refuse requests.
type Admission struct {
	Enabled []string `mapstructure:"enabled" live:"true" doc:"names of the admission plugins, in the order in which they run"`

	Enable          []string        `mapstructure:"enable" doc:"built-in admission plugins to run in addition to the default ones, by their names in kube-apiserver's --enable-admission-plugins"`
	Disable         []string        `mapstructure:"disable" doc:"built-in admission plugins not to run"`
	Config          string          `mapstructure:"config" doc:"file of kind AdmissionConfiguration (apiserver.config.k8s.io/v1): configuration of built-in admission plugins; read at the start"`
	PodSecurity     json.RawMessage `mapstructure:"-" raw:"podSecurity" doc:"defaults and exemptions of PodSecurity, as in a PodSecurityConfiguration (pod-security.admission.config.k8s.io/v1)"`
	PodSecurityFile string          `mapstructure:"podSecurityFile" doc:"a file of that kind instead; read at the start"`

	EventRateLimit     json.RawMessage `mapstructure:"-" raw:"eventRateLimit" doc:"limits of EventRateLimit, as in a Configuration (eventratelimit.admission.k8s.io/v1alpha1)"`
	EventRateLimitFile string          `mapstructure:"eventRateLimitFile" doc:"a file of that kind instead; read at the start"`
}

// Election configures the Leases behind which scheduler and controllers run
// where several kernels share a store.
type Election struct {
	LeaseDuration time.Duration `mapstructure:"leaseDuration" range:"1s,10m" doc:"how long others wait for a silent leader before one of them takes over"`
	RenewDeadline time.Duration `mapstructure:"renewDeadline" range:"500ms,10m" doc:"how long a leader continues without renewing its Lease"`
	RetryPeriod   time.Duration `mapstructure:"retryPeriod" range:"100ms,1m" doc:"interval of renewing, and of trying to get, a Lease"`
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
	Address      string   `mapstructure:"address" format:"ips?" doc:"the node's InternalIP, or one per IP family with a comma between them, in the order of api.serviceCIDR; empty: the address of the default route, else 127.0.0.1"`
	KubeletPort  int      `mapstructure:"kubeletPort" range:"0,65535" doc:"port of the node agent's HTTPS server; 0 picks a free one"`
	Runtime      string   `mapstructure:"runtime" doc:"name of the runtime plugin"`
	Proxies      []string `mapstructure:"proxies" doc:"names of service proxies; the node uses the first that this machine can run"`
	DNS          string   `mapstructure:"dns" doc:"name of the plugin that answers the cluster's DNS on this node, as service kube-system/kube-dns; empty: none"`
	Policies     string   `mapstructure:"networkPolicy" doc:"name of the plugin that enforces network policies for the pods of this node; empty: none"`
	Announcer    string   `mapstructure:"announcer" doc:"name of the plugin that announces load balancers' addresses to other machines of this node's network; empty: none"`
	PodCIDR      string   `mapstructure:"podCIDR" format:"cidrs?" doc:"range of pod IPs on this node, or one per IP family with a comma between them, in the order of api.serviceCIDR; empty: the range of the Node object, for example by the controller nodeipam"`
	ClusterCIDRs []string `mapstructure:"clusterCIDRs" format:"cidr" doc:"ranges of the pods of all nodes: packets of pods to these ranges keep their source address, other packets get the node's; none: only node.podCIDR"`
	Network      string   `mapstructure:"network" doc:"name of the plugin that connects pods of this node with those of other nodes; it needs clusterCIDRs; empty: none"`
	MaxPods      int      `mapstructure:"maxPods" range:"1,100000" doc:"maximum number of pods on this node"`

	OnStop              string        `mapstructure:"onStop" enum:"keep,stop" doc:"what a stop of the kernel does to its pods: keep lets them run until the next start, stop ends and removes them"`
	ShutdownGracePeriod time.Duration `mapstructure:"shutdownGracePeriod" range:"1s,24h" doc:"longest time for a container to end if onStop is stop; the pod's terminationGracePeriodSeconds may be shorter"`

	ImagePullVerification    string   `mapstructure:"imagePullCredentialsVerificationPolicy" enum:"NeverVerify,NeverVerifyPreloadedImages,NeverVerifyAllowlistedImages,AlwaysVerify" doc:"for which images on the node a pod needs credentials that can pull them"`
	PreloadedImagesAllowlist []string `mapstructure:"preloadedImagesVerificationAllowlist" doc:"images of NeverVerifyAllowlistedImages, without tag and digest, or all below a path: registry.example.com/team/*"`

	SeccompDefault bool `mapstructure:"seccompDefault" doc:"containers without a seccomp profile get the runtime's, RuntimeDefault"`
	SeccompWaived  bool `mapstructure:"seccompWaived" doc:"if the runtime lacks seccomp, containers start without their profile RuntimeDefault; false: they do not start"`

	Labels map[string]string `mapstructure:"-" raw:"labels" doc:"labels that the node registers with; on an existing node only the well-known ones are set"`

	// What follows is named as KubeletConfiguration names it.
	RegisterWithTaints []Taint `mapstructure:"registerWithTaints" doc:"taints that the node registers with"`
	HostnameOverride   string  `mapstructure:"hostnameOverride" doc:"the node's address of type Hostname; empty: the node's name"`

	ClusterDNS    []string `mapstructure:"clusterDNS" format:"ip" doc:"addresses of the cluster's DNS server, for pods with dnsPolicy ClusterFirst; none: that of node.dns, the tenth of api.serviceCIDR; without node.dns those pods get the machine's resolver and an event"`
	ClusterDomain string   `mapstructure:"clusterDomain" doc:"the cluster's DNS domain, which those pods search"`
	ResolvConf    string   `mapstructure:"resolvConf" doc:"file with the machine's DNS servers, for pods; empty: /etc/resolv.conf, or if that names only loopback, /run/systemd/resolve/resolv.conf"`

	KubeReserved           map[string]string `mapstructure:"-" raw:"kubeReserved" format:"reserved" doc:"resources reserved for the kernel, the runtime and plugins: cpu, memory, ephemeral-storage, pid; defaults: 100m, a tenth of the memory from 256Mi to 2Gi, nothing, 1000"`
	SystemReserved         map[string]string `mapstructure:"-" raw:"systemReserved" format:"reserved" doc:"resources reserved for everything else on the machine"`
	EnforceNodeAllocatable []string          `mapstructure:"enforceNodeAllocatable" enum:"pods,none" doc:"pods: the cgroup of all pods is limited to the unreserved resources; none or empty: no limit"`
	CgroupRoot             string            `mapstructure:"cgroupRoot" format:"absolute" doc:"parent of the cgroup of all pods, kubepods, if the kernel is root"`

	EvictionHard       map[string]string `mapstructure:"-" raw:"evictionHard" format:"eviction" live:"true" doc:"thresholds by signal, as an amount or a percentage: memory.available, nodefs.available, nodefs.inodesFree, imagefs.available, imagefs.inodesFree, pid.available; below one the node reports a pressure, and for disks it evicts pods; your list replaces the default, 0 turns a signal off"`
	PressureTransition time.Duration     `mapstructure:"evictionPressureTransitionPeriod" range:"0s,1h" live:"true" doc:"how long the node reports a pressure after it ended"`

	SerializeImagePulls   bool          `mapstructure:"serializeImagePulls" doc:"pull one image at a time"`
	MaxParallelImagePulls int           `mapstructure:"maxParallelImagePulls" range:"0,1000" doc:"concurrent pulls without serializeImagePulls; 0: no limit"`
	ImageMinimumGCAge     time.Duration `mapstructure:"imageMinimumGCAge" range:"1ms,720h" live:"true" doc:"minimum age of an unused image before it is removed"`
	ImageGCHigh           int           `mapstructure:"imageGCHighThresholdPercent" range:"1,100" live:"true" doc:"usage of the images' file system at which removal of unused images starts; 100: never"`
	ImageGCLow            int           `mapstructure:"imageGCLowThresholdPercent" range:"0,100" live:"true" doc:"usage of the images' file system at which removal ends"`

	ContainerLogMaxSize  Size `mapstructure:"containerLogMaxSize" range:"1Ki,1Ti" live:"true" doc:"size at which a container's log is rotated"`
	ContainerLogMaxFiles int  `mapstructure:"containerLogMaxFiles" range:"2,1000" live:"true" doc:"how many files of a container's log are kept"`

	MinimumContainerTTL       time.Duration `mapstructure:"minimumContainerTTLDuration" range:"0s,720h" live:"true" doc:"minimum age of a dead container before it is removed"`
	MaxPerPodContainer        int           `mapstructure:"maximumDeadContainersPerContainer" range:"-1,1000" live:"true" doc:"how many former instances of a container are kept; -1: all"`
	MaxDeadContainers         int           `mapstructure:"maximumDeadContainers" range:"-1,100000" live:"true" doc:"how many dead containers are kept in all; -1: no limit"`
	CrashLoopBackOff          CrashBackOff  `mapstructure:"crashLoopBackOff" doc:"restarts of crashing containers"`
	SyncFrequency             time.Duration `mapstructure:"syncFrequency" range:"1s,1h" doc:"longest time between two syncs of a pod"`
	NodeStatusUpdateFrequency time.Duration `mapstructure:"nodeStatusUpdateFrequency" range:"1s,1h" doc:"how often the node's status is computed"`
	NodeStatusReportFrequency time.Duration `mapstructure:"nodeStatusReportFrequency" range:"1s,24h" doc:"how often the node's status is written if nothing changed"`
	NodeLeaseDurationSeconds  int           `mapstructure:"nodeLeaseDurationSeconds" range:"4,86400" doc:"validity of the node's Lease; it is renewed four times in that period"`
	DefaultRuntimeHandler     string        `mapstructure:"defaultRuntimeHandler" doc:"handler of the runtime for pods without a RuntimeClass; empty: the runtime's own default"`
}

// Taint is a taint that the node registers with.
type Taint struct {
	Key    string `mapstructure:"key" required:"true" format:"labelkey" doc:"key of the taint"`
	Value  string `mapstructure:"value" format:"labelvalue" doc:"value of the taint"`
	Effect string `mapstructure:"effect" required:"true" enum:"NoSchedule,PreferNoSchedule,NoExecute" doc:"effect on pods that do not tolerate it"`
}

// CrashBackOff configures the waits before restarts.
type CrashBackOff struct {
	MaxContainerRestartPeriod time.Duration `mapstructure:"maxContainerRestartPeriod" range:"1s,5m" doc:"longest wait before a crashing container restarts"`
}

// HollowPodRange holds the pod IPs of all hollow nodes, a /25 for each.
const HollowPodRange = "10.128.0.0/9"

// Hollow configures simulated nodes, which run no containers.
type Hollow struct {
	Runtime string `mapstructure:"runtime" doc:"name of the runtime plugin that simulates containers"`
	Nodes   int    `mapstructure:"nodes" range:"0,65536" doc:"how many hollow nodes to run beside the real one"`
	Prefix  string `mapstructure:"prefix" doc:"prefix of their names, before a number"`

	LeaseDuration         time.Duration `mapstructure:"leaseDuration" range:"4s,24h" doc:"validity of a hollow node's Lease; it is renewed four times in that period"`
	StatusReportFrequency time.Duration `mapstructure:"statusReportFrequency" range:"10s,24h" doc:"how often the status of a hollow node is computed, and written if nothing changed"`
}
