package kubecontrollers

// rule is what becomes of a field, or of a group of fields.
type rule struct {
	// plugin has the same as key; "": there is none.
	plugin, key string
	// most bounds a number of workers; 0: it is none.
	most int
	// zero: the value 0 asks for something.
	zero bool
	// harmless are values that ask for what is so anyway.
	harmless []string
	// note says why the field needs no counterpart; fault what to do, as there is none.
	note, fault string
}

func same(plugin, key string) rule    { return rule{plugin: plugin, key: key} }
func workers(plugin, key string) rule { return rule{plugin: plugin, key: key, most: 1000} }

const (
	oneProcess = "controllers have no server of their own: health, metrics and profiles are the API server's"
	noCloud    = "cloud controllers have it in the configuration of their provider, the plugin that cloud.provider names"
	noMove     = "duties do not move to another program"
	noVolumes  = "volumes are not attached"
	ownCA      = "certificates are signed by the cluster's own authority, which pintle pki renews"
)

// rules are the fields of a KubeControllerManagerConfiguration by path. The rule of a
// group is that of all fields below it.
var rules = map[string]rule{
	"Generic.Port":                    {note: oneProcess},
	"Generic.Address":                 {note: oneProcess},
	"Generic.MinResyncPeriod":         {note: "caches do not send again what has not changed"},
	"Generic.ClientConnection":        {note: "controllers speak with the API over a socket of their own; plugins.callsPerSecond bounds each bundle"},
	"Generic.ControllerStartInterval": {note: "controllers start at once"},
	"Generic.LeaderElection":          {note: "kernels on one etcd elect, a kernel on its own store is alone: see leaderElection"},
	"Generic.Controllers":             {note: "is translated to controllers.enabled"},
	"Generic.Debugging":               {note: oneProcess},
	"Generic.LeaderMigrationEnabled":  {harmless: []string{"false"}, fault: noMove},
	"Generic.LeaderMigration":         {fault: noMove},

	"KubeCloudShared.CloudProvider":                {fault: "a cloud provider is a plugin: name it in cloud.provider"},
	"KubeCloudShared.ExternalCloudVolumePlugin":    {fault: noVolumes},
	"KubeCloudShared.UseServiceAccountCredentials": {note: "each controller has an identity of its own"},
	"KubeCloudShared.AllowUntaggedCloud":           {note: noCloud},
	"KubeCloudShared.RouteReconciliationPeriod":    {note: noCloud},
	"KubeCloudShared.NodeMonitorPeriod":            same("nodelifecycle", "nodeMonitorPeriod"),
	"KubeCloudShared.ClusterName":                  {note: noCloud},
	"KubeCloudShared.ClusterCIDR":                  same("nodeipam", "clusterCIDR"),
	"KubeCloudShared.AllocateNodeCIDRs":            same("nodeipam", "allocateNodeCIDRs"),
	"KubeCloudShared.CIDRAllocatorType":            {harmless: []string{"RangeAllocator"}, fault: "nodeipam gives ranges of clusterCIDR; a cloud provider gives none"},
	"KubeCloudShared.ConfigureCloudRoutes":         {note: noCloud},
	"KubeCloudShared.NodeSyncPeriod":               {note: noCloud},

	"AttachDetachController": {note: noVolumes},
	"CSRSigningController":   {note: ownCA},
	"DeprecatedController":   {note: "has no fields"},
	"ServiceController":      {note: noCloud},

	"DaemonSetController.ConcurrentDaemonSetSyncs":                             workers("daemonset", "concurrentDaemonSetSyncs"),
	"DeploymentController.ConcurrentDeploymentSyncs":                           workers("deployment", "concurrentDeploymentSyncs"),
	"StatefulSetController.ConcurrentStatefulSetSyncs":                         workers("statefulset", "concurrentStatefulSetSyncs"),
	"EndpointController.ConcurrentEndpointSyncs":                               workers("endpoints", "concurrentEndpointSyncs"),
	"EndpointController.EndpointUpdatesBatchPeriod":                            {fault: "changes of pods are not gathered before endpoints are written"},
	"EndpointSliceController.ConcurrentServiceEndpointSyncs":                   workers("endpointslice", "concurrentServiceEndpointSyncs"),
	"EndpointSliceController.MaxEndpointsPerSlice":                             {plugin: "endpointslice", key: "maxEndpointsPerSlice", most: 1000},
	"EndpointSliceController.EndpointUpdatesBatchPeriod":                       {fault: "changes of pods are not gathered before slices are written"},
	"EndpointSliceMirroringController.MirroringConcurrentServiceEndpointSyncs": workers("endpointslicemirroring", "mirroringConcurrentServiceEndpointSyncs"),
	"EndpointSliceMirroringController.MirroringMaxEndpointsPerSubset":          {harmless: []string{"1000"}, fault: "is 1000"},
	"EndpointSliceMirroringController.MirroringEndpointUpdatesBatchPeriod":     {fault: "changes of endpoints are not gathered before slices are written"},
	"GarbageCollectorController.EnableGarbageCollector":                        {harmless: []string{"true"}, fault: "leave garbagecollector out of controllers.enabled"},
	"GarbageCollectorController.ConcurrentGCSyncs":                             workers("garbagecollector", "concurrentGCSyncs"),
	"GarbageCollectorController.GCIgnoredResources":                            {note: "events are ignored, and nothing else"},
	"HPAController.ConcurrentHorizontalPodAutoscalerSyncs":                     workers("horizontalpodautoscaler", "concurrentHorizontalPodAutoscalerSyncs"),
	"HPAController.HorizontalPodAutoscalerSyncPeriod":                          same("horizontalpodautoscaler", "horizontalPodAutoscalerSyncPeriod"),
	"HPAController.HorizontalPodAutoscalerDownscaleStabilizationWindow":        same("horizontalpodautoscaler", "horizontalPodAutoscalerDownscaleStabilizationWindow"),
	"HPAController.HorizontalPodAutoscalerTolerance":                           same("horizontalpodautoscaler", "horizontalPodAutoscalerTolerance"),
	"HPAController.HorizontalPodAutoscalerCPUInitializationPeriod":             same("horizontalpodautoscaler", "horizontalPodAutoscalerCPUInitializationPeriod"),
	"HPAController.HorizontalPodAutoscalerInitialReadinessDelay":               same("horizontalpodautoscaler", "horizontalPodAutoscalerInitialReadinessDelay"),
	"EphemeralVolumeController.ConcurrentEphemeralVolumeSyncs":                 workers("ephemeral-volume", "concurrentEphemeralVolumeSyncs"),
	"JobController.ConcurrentJobSyncs":                                         workers("job", "concurrentJobSyncs"),
	"CronJobController.ConcurrentCronJobSyncs":                                 workers("cronjob", "concurrentCronJobSyncs"),
	"LegacySATokenCleaner.CleanUpPeriod":                                       same("legacy-serviceaccount-token-cleaner", "cleanUpPeriod"),
	"NamespaceController.NamespaceSyncPeriod":                                  {note: "namespaces that are being deleted are looked at until they are gone"},
	"NamespaceController.ConcurrentNamespaceSyncs":                             workers("namespace", "concurrentNamespaceSyncs"),
	"NodeIPAMController.ServiceCIDR":                                           same("nodeipam", "serviceCIDR"),
	"NodeIPAMController.SecondaryServiceCIDR":                                  same("nodeipam", "secondaryServiceCIDR"),
	"NodeIPAMController.NodeCIDRMaskSize":                                      same("nodeipam", "nodeCIDRMaskSize"),
	"NodeIPAMController.NodeCIDRMaskSizeIPv4":                                  same("nodeipam", "nodeCIDRMaskSizeIPv4"),
	"NodeIPAMController.NodeCIDRMaskSizeIPv6":                                  same("nodeipam", "nodeCIDRMaskSizeIPv6"),
	"NodeLifecycleController.NodeEvictionRate":                                 {plugin: "nodelifecycle", key: "nodeEvictionRate", zero: true},
	"NodeLifecycleController.SecondaryNodeEvictionRate":                        {plugin: "nodelifecycle", key: "secondaryNodeEvictionRate", zero: true},
	"NodeLifecycleController.NodeStartupGracePeriod":                           same("nodelifecycle", "nodeStartupGracePeriod"),
	"NodeLifecycleController.NodeMonitorGracePeriod":                           same("nodelifecycle", "nodeMonitorGracePeriod"),
	"NodeLifecycleController.PodEvictionTimeout":                               {note: "pods are deleted by their node's taints, after the time that they tolerate them"},
	"NodeLifecycleController.LargeClusterSizeThreshold":                        {plugin: "nodelifecycle", key: "largeClusterSizeThreshold", zero: true},
	"NodeLifecycleController.UnhealthyZoneThreshold":                           same("nodelifecycle", "unhealthyZoneThreshold"),
	"PersistentVolumeBinderController.PVClaimBinderSyncPeriod":                 same("persistentvolume-binder", "pvClaimBinderSyncPeriod"),

	"PersistentVolumeBinderController.VolumeConfiguration.EnableHostPathProvisioning":            {harmless: []string{"false"}, fault: "volumes are provisioned by provisioners of storage classes"},
	"PersistentVolumeBinderController.VolumeConfiguration.EnableDynamicProvisioning":             same("persistentvolume-binder", "enableDynamicProvisioning"),
	"PersistentVolumeBinderController.VolumeConfiguration.PersistentVolumeRecyclerConfiguration": {note: "volumes are not recycled"},
	"PersistentVolumeBinderController.VolumeConfiguration.FlexVolumePluginDir":                   {note: "volume plugins by exec are not there"},

	"PodGCController.TerminatedPodGCThreshold":             same("podgc", "terminatedPodThreshold"),
	"ReplicaSetController.ConcurrentRSSyncs":               workers("replicaset", "concurrentRSSyncs"),
	"ReplicationController.ConcurrentRCSyncs":              workers("replication", "concurrentRCSyncs"),
	"ResourceClaimController.ConcurrentSyncs":              workers("resourceclaim", "concurrentSyncs"),
	"DeviceTaintEvictionController.ConcurrentSyncs":        workers("devicetainteviction", "concurrentSyncs"),
	"ResourceQuotaController.ResourceQuotaSyncPeriod":      same("resourcequota", "resourceQuotaSyncPeriod"),
	"ResourceQuotaController.ConcurrentResourceQuotaSyncs": workers("resourcequota", "concurrentResourceQuotaSyncs"),
	"SAController.ServiceAccountKeyFile":                   {note: "tokens are signed with the cluster's own key, which pintle pki rotates"},
	"SAController.ConcurrentSATokenSyncs":                  {note: "tokens are written by the kernel"},
	"SAController.RootCAFile":                              {note: "each namespace gets the cluster's own authority: root-ca.caFile names another"},
	"TTLAfterFinishedController.ConcurrentTTLSyncs":        workers("ttlafterfinished", "concurrentTTLSyncs"),

	"ValidatingAdmissionPolicyStatusController": {note: "policies are checked by the kernel, one after the other"},
}
