package main

import (
	"pintle.dev/pintle/plugins/ingress/gateway"
	"pintle.dev/pintle/plugins/ingress/gatewaykeeper"
	"pintle.dev/pintle/plugins/ingress/keeper"
	"pintle.dev/pintle/plugins/ingress/proxy"
	"pintle.dev/pintle/sdk/controller"
)

func main() {
	proxy.RegisterMetrics()
	between := &gateway.Exchange{}
	controller.Serve(
		controller.Controller{Name: keeper.Name, New: keeper.New(between)},
		controller.Controller{Name: gatewaykeeper.Name, New: gatewaykeeper.New(between)})
}
