package features

// switches are the gates that code of this process asks the libraries' common gate for.
var switches = []string{
	"APIServerIdentity",
	"AllowParsingUserUIDFromCertAuth",
	"CBORServingAndStorage",
	"CRDObservedGenerationTracking",
	"ComponentFlagz",
	"ComponentStatusz",
	"ConcurrentWatchObjectDecode",
	"ConstrainedImpersonation",
	"DetectCacheInconsistency",
	"HPAScaleToZero",
	"KMSv1",
	"ListFromCacheSnapshot",
	"OpenAPIEnums",
	"StorageVersionHash",
	"UnauthenticatedHTTP2DOSMitigation",
	"UnknownVersionInteroperabilityProxy",
	"WatchList",
}

// clientSwitches are the gates that client-go asks for.
var clientSwitches = []string{
	"AtomicFIFO",
	"ClientsAllowCARotation",
	"ClientsAllowCBOR",
	"ClientsAllowTLSCacheGC",
	"ClientsPreferCBOR",
	"InOrderInformersBatchProcess",
	"InformerResourceVersion",
	"UnlockWhileProcessingFIFO",
	"WatchListClient",
}

const (
	noDRA      = "nothing allocates devices yet: their objects are served, a pod with resource claims is refused by the scheduler"
	noManagers = "managers of CPUs, memory and topology are not there: containers get shares of all"
	noPodAPI   = "the node agent has no pod resources API"
	noDevices  = "devices are not there"
	noCSI      = "volumes of CSI drivers are not there"
	noWindows  = "nodes run Linux"
	noSELinux  = "volumes are not relabelled for SELinux"
	noUsers    = "user namespaces of pods are not there"
)

// absent are gates that are on in Kubernetes, with what is missing here.
var absent = map[string]string{
	"CPUManagerPolicyBetaOptions":                         noManagers,
	"CPUManagerPolicyOptions":                             noManagers,
	"CSIServiceAccountTokenSecrets":                       noCSI,
	"ContainerCheckpoint":                                 "the node agent makes no checkpoints of containers",
	"CustomCPUCFSQuotaPeriod":                             "the period of CPU limits is 100ms",
	"DRAAdminAccess":                                      noDRA,
	"DRAConsumableCapacity":                               noDRA,
	"DRADeviceBindingConditions":                          noDRA,
	"DRADeviceTaints":                                     "taints of devices end pods (controller devicetainteviction); nothing allocates devices yet",
	"DRAExtendedResource":                                 noDRA,
	"DRAPartitionableDevices":                             noDRA,
	"DRAPrioritizedList":                                  noDRA,
	"DRASchedulerFilterTimeout":                           noDRA,
	"DisableCPUQuotaWithExclusiveCPUs":                    noManagers,
	"DynamicResourceAllocation":                           noDRA,
	"ExternalServiceAccountTokenSigner":                   "tokens are signed by the key in the data directory; another signer cannot be named",
	"GracefulNodeShutdownBasedOnPodPriority":              "all pods have the same time at a shutdown",
	"ImageMaximumGCAge":                                   "images are removed by use of the disk alone",
	"KubeletCgroupDriverFromCRI":                          "cgroups are made directly (cgroupfs)",
	"KubeletPSI":                                          "statistics have no pressure stall information",
	"KubeletPodResourcesDynamicResources":                 noPodAPI,
	"KubeletPodResourcesGet":                              noPodAPI,
	"KubeletPodResourcesListUseActivePods":                noPodAPI,
	"KubeletSeparateDiskGC":                               "images and writable layers are on one disk",
	"KubeletServiceAccountTokenForCredentialProviders":    "programs that provide credentials for images are not there",
	"KubeletTracing":                                      "the node agent makes no spans",
	"NodeDeclaredFeatures":                                "nodes declare no features",
	"NodeLogQuery":                                        "the node agent does not read the machine's journal",
	"NodeSwap":                                            "containers may not swap",
	"ProcMountType":                                       noUsers,
	"ReloadKubeletClientCAFile":                           "the node agent knows the cluster's authority without a file",
	"ReloadKubeletServerCertificateFile":                  "the node agent has its certificate without a file",
	"ResourceHealthStatus":                                noDevices,
	"ResourceHealthStatusMessage":                         noDevices,
	"RotateKubeletServerCertificate":                      "the agent of a kernel's node has its certificate without a request (CSR); `pintle node` asks for it and renews it, always",
	"SELinuxChangePolicy":                                 noSELinux,
	"SELinuxMountReadWriteOncePod":                        noSELinux,
	"StructuredAuthenticationConfigurationEgressSelector": "requests to other servers leave the machine directly",
	"SystemdWatchdog":                                     "systemd is not told that the kernel lives; ask /livez",
	"TopologyManagerPolicyBetaOptions":                    noManagers,
	"TopologyManagerPolicyOptions":                        noManagers,
	"UserNamespacesSupport":                               noUsers,
	"WinDSR":                                              noWindows,
	"WinOverlay":                                          noWindows,
	"WindowsGracefulNodeShutdown":                         noWindows,
}

const unsafeDeletes = "AllowUnsafeMalformedObjectDeletion"

// always are gates that are off in Kubernetes, of what is so here all the same.
var always = map[string]string{
	unsafeDeletes:              "the kernel goes on without an object that it cannot read, and who may takes it away",
	"EventedPLEG":              "the runtime's events are followed, beside its lists",
	"PodLogsQuerySplitStreams": "logs of one stream are always given",
}
