// Package subsets lays out the addresses and ports of Endpoints in the fewest
// subsets, in a fixed order, so that equal input gives equal output.
//
// It must not import a controller.
package subsets
