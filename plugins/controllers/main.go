package main

import (
	"pintle.dev/pintle/sdk/controller"

	"pintle.dev/pintle/plugins/controllers/replicaset"
)

func main() {
	controller.Serve(
		controller.Controller{Name: "replicaset", New: replicaset.New},
		controller.Controller{Name: "replication", New: replicaset.NewReplication},
	)
}
