package kubeletconfig

// rule is what becomes of a field.
type rule struct {
	// key of the group node; "": there is none.
	key string
	// harmless are values that ask for what is so anyway.
	harmless []string
	// note says why the field needs no counterpart; fault what to do, as there is none.
	note, fault string
}

func same(name string) rule { return rule{key: name} }

const (
	noTLS      = "the node agent has its certificate from the cluster's authority"
	noStatic   = "static pods are not there: create the pods through the API"
	noManager  = "there is no such manager: containers get shares of all CPUs and memory of all NUMA nodes"
	noSoft     = "only hard thresholds are there: raise evictionHard"
	noFeature  = "is a switch of the kubelet's own code"
	noClient   = "the node agent speaks to the API server in its own process"
	noSwap     = "containers may not swap"
	fromKernel = "the kernel's own keys say this: logging, tracing"
)

// rules are all fields of a KubeletConfiguration.
var rules = map[string]rule{
	"apiVersion": {}, "kind": {}, // checked when the file is read

	"syncFrequency":                    same("syncFrequency"),
	"port":                             same("kubeletPort"),
	"clusterDomain":                    same("clusterDomain"),
	"clusterDNS":                       same("clusterDNS"),
	"nodeStatusUpdateFrequency":        same("nodeStatusUpdateFrequency"),
	"nodeStatusReportFrequency":        same("nodeStatusReportFrequency"),
	"nodeLeaseDurationSeconds":         same("nodeLeaseDurationSeconds"),
	"imageMinimumGCAge":                same("imageMinimumGCAge"),
	"imageGCHighThresholdPercent":      same("imageGCHighThresholdPercent"),
	"imageGCLowThresholdPercent":       same("imageGCLowThresholdPercent"),
	"cgroupRoot":                       same("cgroupRoot"),
	"maxPods":                          same("maxPods"),
	"podCIDR":                          same("podCIDR"),
	"resolvConf":                       same("resolvConf"),
	"serializeImagePulls":              same("serializeImagePulls"),
	"maxParallelImagePulls":            same("maxParallelImagePulls"),
	"evictionHard":                     same("evictionHard"),
	"evictionPressureTransitionPeriod": same("evictionPressureTransitionPeriod"),
	"containerLogMaxSize":              same("containerLogMaxSize"),
	"containerLogMaxFiles":             same("containerLogMaxFiles"),
	"systemReserved":                   same("systemReserved"),
	"kubeReserved":                     same("kubeReserved"),
	"enforceNodeAllocatable":           same("enforceNodeAllocatable"),
	"registerWithTaints":               same("registerWithTaints"),
	"crashLoopBackOff":                 same("crashLoopBackOff"),
	"seccompDefault":                   same("seccompDefault"),

	"imagePullCredentialsVerificationPolicy": same("imagePullCredentialsVerificationPolicy"),
	"preloadedImagesVerificationAllowlist":   same("preloadedImagesVerificationAllowlist"),
	"shutdownGracePeriod":                    {key: "shutdownGracePeriod", harmless: []string{"0s"}},
	"shutdownGracePeriodCriticalPods":        {key: "shutdownGracePeriodCriticalPods", fault: "all pods have the same time: set shutdownGracePeriod alone"},
	"shutdownGracePeriodByPodPriority":       {fault: "all pods have the same time: set shutdownGracePeriod"},

	"enableServer":                              {harmless: []string{"true"}, fault: "the node agent always serves logs, exec and statistics"},
	"staticPodPath":                             {fault: noStatic},
	"staticPodURL":                              {fault: noStatic},
	"staticPodURLHeader":                        {fault: noStatic},
	"fileCheckFrequency":                        {note: noStatic},
	"httpCheckFrequency":                        {note: noStatic},
	"podLogsDir":                                {note: "logs are in the data directory"},
	"address":                                   {harmless: []string{"0.0.0.0"}, fault: "the node agent listens on all addresses: close its port (node.kubeletPort) to others by a firewall"},
	"readOnlyPort":                              {fault: "a port without authentication is not there: ask the node agent's port with a token that may get nodes/stats or nodes/metrics"},
	"tlsCertFile":                               {note: noTLS},
	"tlsPrivateKeyFile":                         {note: noTLS},
	"tlsCipherSuites":                           {note: "Go's own choice is taken, of TLS 1.2 and later"},
	"tlsCurvePreferences":                       {note: "Go's own choice is taken"},
	"tlsMinVersion":                             {harmless: []string{"VersionTLS12"}, fault: "is TLS 1.2"},
	"rotateCertificates":                        {note: noTLS},
	"serverTLSBootstrap":                        {note: "the agent of a kernel's node has its certificate from the cluster's authority; `pintle node` always asks for it (CSR)"},
	"authentication":                            {note: "a request to the node agent needs a client certificate of the cluster's authority, or a token that the API accepts; there are no anonymous requests"},
	"authorization":                             {note: "the API is asked who may do what (Webhook)"},
	"registryPullQPS":                           {note: "pulls are limited by number (maxParallelImagePulls), not by rate"},
	"registryBurst":                             {note: "pulls are limited by number (maxParallelImagePulls), not by rate"},
	"eventRecordQPS":                            {note: "events of one object are limited"},
	"eventBurst":                                {note: "events of one object are limited"},
	"enableDebuggingHandlers":                   {harmless: []string{"true"}, fault: "logs and exec are always there: RBAC says who may use them"},
	"enableContentionProfiling":                 {note: fromKernel},
	"healthzPort":                               {note: "health is at /healthz of the node agent's port, and of the API's"},
	"healthzBindAddress":                        {note: "health is at /healthz of the node agent's port, and of the API's"},
	"oomScoreAdj":                               {harmless: []string{"-999"}, fault: "is -999"},
	"streamingConnectionIdleTimeout":            {note: "idle streams are closed by the runtime"},
	"imageMaximumGCAge":                         {harmless: []string{"0s"}, fault: "images are removed by use of the disk alone"},
	"volumeStatsAggPeriod":                      {note: "volumes are measured when statistics are asked for, and every 10s for limits"},
	"kubeletCgroups":                            {note: "the kernel stays in the cgroup that it was started in"},
	"systemCgroups":                             {fault: "processes of the machine are left where they are"},
	"cgroupsPerQOS":                             {harmless: []string{"true"}, fault: "pods always have cgroups by class"},
	"cgroupDriver":                              {note: "cgroups are made directly (cgroupfs)"},
	"cpuManagerPolicy":                          {harmless: []string{"none"}, fault: noManager},
	"cpuManagerPolicyOptions":                   {fault: noManager},
	"cpuManagerReconcilePeriod":                 {note: noManager},
	"singleProcessOOMKill":                      {harmless: []string{"false"}, fault: "a container that runs out of memory ends whole on cgroup v2"},
	"memoryManagerPolicy":                       {harmless: []string{"None"}, fault: noManager},
	"topologyManagerPolicy":                     {harmless: []string{"none"}, fault: noManager},
	"topologyManagerScope":                      {harmless: []string{"container"}, note: noManager},
	"topologyManagerPolicyOptions":              {fault: noManager},
	"reservedMemory":                            {fault: noManager},
	"reservedSystemCPUs":                        {fault: noManager + "; reserve an amount by systemReserved"},
	"qosReserved":                               {fault: "memory is not reserved by class of pods"},
	"runtimeRequestTimeout":                     {note: "calls of the runtime have deadlines of their own"},
	"hairpinMode":                               {note: "the bridge of the pod network is in hairpin mode"},
	"podPidsLimit":                              {harmless: []string{"-1"}, fault: "pods have no limit of processes of their own: reserve some of the machine's by kubeReserved.pid"},
	"runOnce":                                   {harmless: []string{"false"}, fault: "is not there"},
	"cpuCFSQuota":                               {harmless: []string{"true"}, fault: "CPU limits are always enforced"},
	"cpuCFSQuotaPeriod":                         {harmless: []string{"100ms"}, fault: "is 100ms"},
	"nodeStatusMaxImages":                       {harmless: []string{"50"}, fault: "is 50"},
	"maxOpenFiles":                              {note: "the limit of open files is that of the kernel's process"},
	"contentType":                               {note: noClient},
	"kubeAPIQPS":                                {note: noClient},
	"kubeAPIBurst":                              {note: noClient},
	"evictionSoft":                              {fault: noSoft},
	"evictionSoftGracePeriod":                   {fault: noSoft},
	"evictionMaxPodGracePeriod":                 {fault: noSoft},
	"evictionMinimumReclaim":                    {fault: "pods are evicted until the threshold is met"},
	"mergeDefaultEvictionSettings":              {harmless: []string{"false"}, fault: "evictionHard replaces the defaults: list all thresholds"},
	"podsPerCore":                               {fault: "set maxPods"},
	"enableControllerAttachDetach":              {note: "volumes are not attached by the node"},
	"protectKernelDefaults":                     {note: "settings of the machine's kernel are not changed but by service proxies"},
	"makeIPTablesUtilChains":                    {note: "service proxies make their chains themselves"},
	"iptablesMasqueradeBit":                     {note: "service proxies say which bits they use"},
	"iptablesDropBit":                           {note: "service proxies say which bits they use"},
	"featureGates":                              {note: "gates are those of the whole kernel, under features"},
	"failSwapOn":                                {note: noSwap + ", whether the machine has swap or not"},
	"memorySwap":                                {harmless: []string{"{}", "map[swapBehavior:NoSwap]"}, fault: noSwap},
	"containerLogMaxWorkers":                    {note: "logs are rotated one after the other"},
	"containerLogMonitorInterval":               {harmless: []string{"10s"}, note: "is 10s"},
	"configMapAndSecretChangeDetectionStrategy": {note: "changes are watched"},
	"showHiddenMetricsForVersion":               {note: noFeature},
	"systemReservedCgroup":                      {fault: "limits of cgroups outside of pods are not set: set them where those cgroups are made"},
	"kubeReservedCgroup":                        {fault: "limits of cgroups outside of pods are not set: set them where those cgroups are made"},
	"allowedUnsafeSysctls":                      {fault: "only safe sysctls are there"},
	"defaultPodSysctls":                         {fault: "name sysctls in the pods"},
	"volumePluginDir":                           {note: "volume plugins by exec are not there"},
	"providerID":                                {fault: "spec.providerID is written by who knows it: kubectl patch node"},
	"kernelMemcgNotification":                   {note: "pressure is measured every 10s"},
	"logging":                                   {note: fromKernel},
	"enableSystemLogHandler":                    {harmless: []string{"true"}, note: "/logs is there, and RBAC says who may read it"},
	"enableSystemLogQuery":                      {harmless: []string{"false"}, fault: "queries of the machine's journal are not there"},
	"enableProfilingHandler":                    {note: "profiles are at the API server's /debug/pprof"},
	"enableDebugFlagsHandler":                   {note: "logging.level is live"},
	"memoryThrottlingFactor":                    {note: "memory.high is not set"},
	"memoryReservationPolicy":                   {harmless: []string{"None"}, fault: "memory.min is not set"},
	"registerNode":                              {harmless: []string{"true"}, fault: "the node always registers"},
	"tracing":                                   {note: fromKernel},
	"localStorageCapacityIsolation":             {harmless: []string{"true"}, fault: "local storage is always measured"},
	"containerRuntimeEndpoint":                  {note: "a runtime plugin brings its own endpoint (node.runtime)"},
	"imageServiceEndpoint":                      {note: "a runtime plugin brings its own endpoint (node.runtime)"},
	"failCgroupV1":                              {harmless: []string{"false"}, note: "cgroup v1 and v2 are taken"},
	"userNamespaces":                            {fault: "user namespaces of pods are not there"},
}
