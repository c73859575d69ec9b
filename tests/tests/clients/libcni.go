// A caller of libcni for the tests in libcni.rs: one operation on one network.
//
// usage: libcni OPERATION CONFLIST CACHE CONTAINER NETNS IFNAME
//
// CNI_PATH is the directory of the plugins. ADD prints the result, GC the attachments CONTAINER and IFNAME as valid. The exit
// status is 1 if libcni returns an error, which is printed on standard error.
package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/containernetworking/cni/libcni"
	"github.com/containernetworking/cni/pkg/types"
)

func main() {
	if len(os.Args) != 7 {
		fmt.Fprintln(os.Stderr, "usage: libcni OPERATION CONFLIST CACHE CONTAINER NETNS IFNAME")
		os.Exit(2)
	}
	if err := call(os.Args[1], os.Args[2], os.Args[3], runtimeConf(os.Args[4:])); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func runtimeConf(args []string) *libcni.RuntimeConf {
	return &libcni.RuntimeConf{ContainerID: args[0], NetNS: args[1], IfName: args[2]}
}

func call(operation, conflist, cache string, runtime *libcni.RuntimeConf) error {
	list, err := libcni.ConfListFromFile(conflist)
	if err != nil {
		return err
	}
	ctx := context.Background()
	cni := libcni.NewCNIConfigWithCacheDir(filepath.SplitList(os.Getenv("CNI_PATH")), cache, nil)
	switch operation {
	case "ADD":
		return add(ctx, cni, list, runtime)
	case "CHECK":
		return cni.CheckNetworkList(ctx, list, runtime)
	case "DEL":
		return cni.DelNetworkList(ctx, list, runtime)
	case "STATUS":
		return cni.GetStatusNetworkList(ctx, list)
	case "GC":
		valid := types.GCAttachment{ContainerID: runtime.ContainerID, IfName: runtime.IfName}
		return cni.GCNetworkList(ctx, list, &libcni.GCArgs{ValidAttachments: []types.GCAttachment{valid}})
	}
	return fmt.Errorf("unknown operation %s", operation)
}

func add(ctx context.Context, cni libcni.CNI, list *libcni.NetworkConfigList, runtime *libcni.RuntimeConf) error {
	result, err := cni.AddNetworkList(ctx, list, runtime)
	if err != nil {
		return err
	}
	return result.Print()
}
