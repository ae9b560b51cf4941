package main

// profiles are those of the suite that are run. Their core tests always are, and those of the
// extended features that the GatewayClass says.
var profiles = []string{"GATEWAY-HTTP", "GATEWAY-GRPC"}

// byConfiguration are features that the configuration of the run switches on.
var byConfiguration = []string{"GatewayPort8080"}

// leftOut are tests that do not pass, with the reason.
var leftOut = map[string]string{
	"HTTPRouteMultipleGateways": "Gateways have no address of their own, so that two of one namespace with the same port and hostname share their routes",
}
