package main

import "pintle.dev/pintle/sdk"

func main() { sdk.Serve() }
