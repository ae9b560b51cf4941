package main

import (
	"pintle.dev/pintle/sdk/cloud"
	"pintle.dev/pintle/sdk/controller"

	"pintle.dev/pintle/plugins/cloud/local"
	"pintle.dev/pintle/plugins/controllers/bootstraptokens"
	"pintle.dev/pintle/plugins/controllers/cronjob"
	"pintle.dev/pintle/plugins/controllers/csr"
	"pintle.dev/pintle/plugins/controllers/daemonset"
	"pintle.dev/pintle/plugins/controllers/deployment"
	"pintle.dev/pintle/plugins/controllers/devicetainteviction"
	"pintle.dev/pintle/plugins/controllers/disruption"
	"pintle.dev/pintle/plugins/controllers/endpoints"
	"pintle.dev/pintle/plugins/controllers/endpointslice"
	"pintle.dev/pintle/plugins/controllers/endpointslicemirroring"
	"pintle.dev/pintle/plugins/controllers/ephemeralvolume"
	"pintle.dev/pintle/plugins/controllers/garbagecollector"
	"pintle.dev/pintle/plugins/controllers/horizontalpodautoscaler"
	"pintle.dev/pintle/plugins/controllers/hostpath"
	"pintle.dev/pintle/plugins/controllers/job"
	"pintle.dev/pintle/plugins/controllers/legacytokens"
	"pintle.dev/pintle/plugins/controllers/namespace"
	"pintle.dev/pintle/plugins/controllers/nodeipam"
	"pintle.dev/pintle/plugins/controllers/nodelifecycle"
	"pintle.dev/pintle/plugins/controllers/nodettl"
	"pintle.dev/pintle/plugins/controllers/persistentvolumebinder"
	"pintle.dev/pintle/plugins/controllers/podgc"
	"pintle.dev/pintle/plugins/controllers/replicaset"
	"pintle.dev/pintle/plugins/controllers/resourceclaim"
	"pintle.dev/pintle/plugins/controllers/resourcequota"
	"pintle.dev/pintle/plugins/controllers/rootca"
	"pintle.dev/pintle/plugins/controllers/serviceaccount"
	"pintle.dev/pintle/plugins/controllers/servicecidr"
	"pintle.dev/pintle/plugins/controllers/settings"
	"pintle.dev/pintle/plugins/controllers/statefulset"
	"pintle.dev/pintle/plugins/controllers/storageprotection"
	"pintle.dev/pintle/plugins/controllers/tainteviction"
	"pintle.dev/pintle/plugins/controllers/ttlafterfinished"
)

func main() { controller.Serve(bundle()...) }

// bundle is every controller of the process, and the cloud provider.
func bundle() []controller.Controller {
	return []controller.Controller{
		settings.Unconfigured("bootstrapsigner", bootstraptokens.NewSigner),
		settings.Unconfigured("tokencleaner", bootstraptokens.NewCleaner),
		{Name: "cronjob", New: cronjob.New},
		{Name: "daemonset", New: daemonset.New},
		settings.Unconfigured("csrapproving", csr.NewApprover),
		settings.Unconfigured("csrapproving-kubelet-serving", csr.NewServingApprover),
		settings.Unconfigured("csrcleaner", csr.NewCleaner),
		{Name: "deployment", New: deployment.New},
		settings.Unconfigured("disruption", disruption.New),
		{Name: "garbagecollector", New: garbagecollector.New},
		{Name: "podgc", New: podgc.New},
		{Name: "endpoints", New: endpoints.New},
		{Name: "endpointslice", New: endpointslice.New},
		{Name: "endpointslicemirroring", New: endpointslicemirroring.New},
		{Name: "horizontalpodautoscaler", New: horizontalpodautoscaler.New},
		{Name: "job", New: job.New},
		{Name: "ttlafterfinished", New: ttlafterfinished.New},
		{Name: "legacy-serviceaccount-token-cleaner", New: legacytokens.New},
		{Name: "namespace", New: namespace.New},
		{Name: "nodeipam", New: nodeipam.New},
		{Name: "nodelifecycle", New: nodelifecycle.New},
		settings.Unconfigured("nodettl", nodettl.New),
		settings.Unconfigured("tainteviction", tainteviction.New),
		{Name: "replicaset", New: replicaset.New},
		{Name: "replication", New: replicaset.NewReplication},
		{Name: "resourceclaim", New: resourceclaim.New},
		{Name: "devicetainteviction", New: devicetainteviction.New},
		{Name: "resourcequota", New: resourcequota.New},
		{Name: "root-ca", New: rootca.New},
		settings.Unconfigured("serviceaccount", serviceaccount.New),
		settings.Unconfigured("servicecidr", servicecidr.New),
		{Name: "statefulset", New: statefulset.New},
		{Name: "persistentvolume-binder", New: persistentvolumebinder.New},
		{Name: "ephemeral-volume", New: ephemeralvolume.New},
		{Name: "hostpath-provisioner", New: hostpath.New},
		settings.Unconfigured("pvc-protection", storageprotection.NewClaims),
		settings.Unconfigured("pv-protection", storageprotection.NewVolumes),
		settings.Unconfigured("volumeattributesclass-protection", storageprotection.NewClasses),
		cloud.Plugin(cloud.Provider{Name: local.Name, New: local.New}),
	}
}
