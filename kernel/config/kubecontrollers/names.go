package kubecontrollers

// known is a controller of kube-controller-manager.
type known struct {
	name    string
	aliases []string
	plugin  string // the same here; "": there is none
	kernel  bool   // it runs in the kernel
	disable string // what controllers.disable has for one in the kernel
	// optional ones run only where they are named, or a feature gate is on that is off.
	optional bool
}

// controllers are those of Kubernetes 1.36, in its order.
var controllers = []known{
	{name: "serviceaccount-token-controller", aliases: []string{"serviceaccount-token"}, kernel: true},
	{name: "endpoints-controller", aliases: []string{"endpoint"}, plugin: "endpoints"},
	{name: "endpointslice-controller", aliases: []string{"endpointslice"}, plugin: "endpointslice"},
	{name: "endpointslice-mirroring-controller", aliases: []string{"endpointslicemirroring"}, plugin: "endpointslicemirroring"},
	{name: "replicationcontroller-controller", aliases: []string{"replicationcontroller"}, plugin: "replication"},
	{name: "pod-garbage-collector-controller", aliases: []string{"podgc"}, plugin: "podgc"},
	{name: "resourcequota-controller", aliases: []string{"resourcequota"}, plugin: "resourcequota"},
	{name: "namespace-controller", aliases: []string{"namespace"}, plugin: "namespace"},
	{name: "serviceaccount-controller", aliases: []string{"serviceaccount"}, plugin: "serviceaccount"},
	{name: "garbage-collector-controller", aliases: []string{"garbagecollector"}, plugin: "garbagecollector"},
	{name: "daemonset-controller", aliases: []string{"daemonset"}, plugin: "daemonset"},
	{name: "job-controller", aliases: []string{"job"}, plugin: "job"},
	{name: "deployment-controller", aliases: []string{"deployment"}, plugin: "deployment"},
	{name: "replicaset-controller", aliases: []string{"replicaset"}, plugin: "replicaset"},
	{name: "horizontal-pod-autoscaler-controller", aliases: []string{"horizontalpodautoscaling"}, plugin: "horizontalpodautoscaler"},
	{name: "disruption-controller", aliases: []string{"disruption"}, plugin: "disruption"},
	{name: "statefulset-controller", aliases: []string{"statefulset"}, plugin: "statefulset"},
	{name: "cronjob-controller", aliases: []string{"cronjob"}, plugin: "cronjob"},
	{name: "certificatesigningrequest-signing-controller", aliases: []string{"csrsigning"}, kernel: true, disable: "csrsigning"},
	{name: "certificatesigningrequest-approving-controller", aliases: []string{"csrapproving"}, plugin: "csrapproving"},
	{name: "certificatesigningrequest-cleaner-controller", aliases: []string{"csrcleaner"}, plugin: "csrcleaner"},
	{name: "podcertificaterequest-cleaner-controller", optional: true},
	{name: "ttl-controller", aliases: []string{"ttl"}, plugin: "nodettl"},
	{name: "bootstrap-signer-controller", aliases: []string{"bootstrapsigner"}, plugin: "bootstrapsigner", optional: true},
	{name: "token-cleaner-controller", aliases: []string{"tokencleaner"}, plugin: "tokencleaner", optional: true},
	{name: "node-ipam-controller", aliases: []string{"nodeipam"}, plugin: "nodeipam"},
	{name: "node-lifecycle-controller", aliases: []string{"nodelifecycle"}, plugin: "nodelifecycle"},
	{name: "taint-eviction-controller", plugin: "tainteviction"},
	{name: "device-taint-eviction-controller", plugin: "devicetainteviction"},
	{name: "persistentvolume-binder-controller", aliases: []string{"persistentvolume-binder"}, plugin: "persistentvolume-binder"},
	{name: "persistentvolume-attach-detach-controller", aliases: []string{"attachdetach"}},
	{name: "persistentvolume-expander-controller", aliases: []string{"persistentvolume-expander"}},
	{name: "clusterrole-aggregation-controller", aliases: []string{"clusterrole-aggregation"}, kernel: true},
	{name: "persistentvolumeclaim-protection-controller", aliases: []string{"pvc-protection"}, plugin: "pvc-protection"},
	{name: "persistentvolume-protection-controller", aliases: []string{"pv-protection"}, plugin: "pv-protection"},
	{name: "podgroup-protection-controller", optional: true},
	{name: "ttl-after-finished-controller", aliases: []string{"ttl-after-finished"}, plugin: "ttlafterfinished"},
	{name: "root-ca-certificate-publisher-controller", aliases: []string{"root-ca-cert-publisher"}, plugin: "root-ca"},
	{name: "kube-apiserver-serving-clustertrustbundle-publisher-controller", optional: true},
	{name: "ephemeral-volume-controller", aliases: []string{"ephemeral-volume"}, plugin: "ephemeral-volume"},
	{name: "storageversion-garbage-collector-controller", aliases: []string{"storage-version-gc"}, optional: true},
	{name: "resourceclaim-controller", aliases: []string{"resource-claim-controller"}, plugin: "resourceclaim"},
	{name: "resourcepoolstatusrequest-controller", optional: true},
	{name: "legacy-serviceaccount-token-cleaner-controller", aliases: []string{"legacy-service-account-token-cleaner"}, plugin: "legacy-serviceaccount-token-cleaner"},
	{name: "validatingadmissionpolicy-status-controller", kernel: true},
	{name: "volumeattributesclass-protection-controller", plugin: "volumeattributesclass-protection"},
	{name: "service-cidr-controller", plugin: "servicecidr"},
	{name: "storage-version-migrator-controller", aliases: []string{"svm"}, optional: true},
	{name: "selinux-warning-controller", optional: true},
}

// find is the controller of a name or alias; nil: there is none.
func find(name string) *known {
	for i := range controllers {
		if controllers[i].name == name {
			return &controllers[i]
		}
		for _, alias := range controllers[i].aliases {
			if alias == name {
				return &controllers[i]
			}
		}
	}
	return nil
}
