package main

import (
	"pintle.dev/pintle/sdk/controller"

	"pintle.dev/pintle/plugins/controllers/cronjob"
	"pintle.dev/pintle/plugins/controllers/csr"
	"pintle.dev/pintle/plugins/controllers/daemonset"
	"pintle.dev/pintle/plugins/controllers/deployment"
	"pintle.dev/pintle/plugins/controllers/disruption"
	"pintle.dev/pintle/plugins/controllers/endpoints"
	"pintle.dev/pintle/plugins/controllers/endpointslice"
	"pintle.dev/pintle/plugins/controllers/endpointslicemirroring"
	"pintle.dev/pintle/plugins/controllers/garbagecollector"
	"pintle.dev/pintle/plugins/controllers/horizontalpodautoscaler"
	"pintle.dev/pintle/plugins/controllers/job"
	"pintle.dev/pintle/plugins/controllers/legacytokens"
	"pintle.dev/pintle/plugins/controllers/namespace"
	"pintle.dev/pintle/plugins/controllers/nodelifecycle"
	"pintle.dev/pintle/plugins/controllers/nodettl"
	"pintle.dev/pintle/plugins/controllers/persistentvolumebinder"
	"pintle.dev/pintle/plugins/controllers/podgc"
	"pintle.dev/pintle/plugins/controllers/replicaset"
	"pintle.dev/pintle/plugins/controllers/resourcequota"
	"pintle.dev/pintle/plugins/controllers/rootca"
	"pintle.dev/pintle/plugins/controllers/serviceaccount"
	"pintle.dev/pintle/plugins/controllers/servicecidr"
	"pintle.dev/pintle/plugins/controllers/statefulset"
	"pintle.dev/pintle/plugins/controllers/storageprotection"
	"pintle.dev/pintle/plugins/controllers/tainteviction"
	"pintle.dev/pintle/plugins/controllers/ttlafterfinished"
)

func main() {
	controller.Serve(
		controller.Controller{Name: "cronjob", New: cronjob.New},
		controller.Controller{Name: "daemonset", New: daemonset.New},
		controller.Controller{Name: "csrapproving", New: csr.NewApprover},
		controller.Controller{Name: "csrcleaner", New: csr.NewCleaner},
		controller.Controller{Name: "deployment", New: deployment.New},
		controller.Controller{Name: "disruption", New: disruption.New},
		controller.Controller{Name: "garbagecollector", New: garbagecollector.New},
		controller.Controller{Name: "podgc", New: podgc.New},
		controller.Controller{Name: "endpoints", New: endpoints.New},
		controller.Controller{Name: "endpointslice", New: endpointslice.New},
		controller.Controller{Name: "endpointslicemirroring", New: endpointslicemirroring.New},
		controller.Controller{Name: "horizontalpodautoscaler", New: horizontalpodautoscaler.New},
		controller.Controller{Name: "job", New: job.New},
		controller.Controller{Name: "ttlafterfinished", New: ttlafterfinished.New},
		controller.Controller{Name: "legacy-serviceaccount-token-cleaner", New: legacytokens.New},
		controller.Controller{Name: "namespace", New: namespace.New},
		controller.Controller{Name: "nodelifecycle", New: nodelifecycle.New},
		controller.Controller{Name: "nodettl", New: nodettl.New},
		controller.Controller{Name: "tainteviction", New: tainteviction.New},
		controller.Controller{Name: "replicaset", New: replicaset.New},
		controller.Controller{Name: "replication", New: replicaset.NewReplication},
		controller.Controller{Name: "resourcequota", New: resourcequota.New},
		controller.Controller{Name: "root-ca", New: rootca.New},
		controller.Controller{Name: "serviceaccount", New: serviceaccount.New},
		controller.Controller{Name: "servicecidr", New: servicecidr.New},
		controller.Controller{Name: "statefulset", New: statefulset.New},
		controller.Controller{Name: "persistentvolume-binder", New: persistentvolumebinder.New},
		controller.Controller{Name: "pvc-protection", New: storageprotection.NewClaims},
		controller.Controller{Name: "pv-protection", New: storageprotection.NewVolumes},
		controller.Controller{Name: "volumeattributesclass-protection", New: storageprotection.NewClasses},
	)
}
