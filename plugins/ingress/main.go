package main

import (
	"pintle.dev/pintle/plugins/ingress/keeper"
	"pintle.dev/pintle/plugins/ingress/proxy"
	"pintle.dev/pintle/sdk/controller"
)

func main() {
	proxy.RegisterMetrics()
	controller.Serve(controller.Controller{Name: keeper.Name, New: keeper.New})
}
