//! What the pages say of ports.
use gpuaas_dev::stack::{Kind, SERVICES};

#[test]
fn documented_ports_are_those_of_make_up() {
    let main = gpuaas_dev::ports::Instance::MAIN;
    let ports: Vec<u16> = SERVICES
        .iter()
        .map(|kind| kind.address(main, 1).port())
        .collect();
    assert_eq!(ports, [7101, 7102, 7103, 7104, 7105, 7106]);
    let gateway = Kind::find("gateway").expect("known");
    assert_eq!(gateway.address(main, 1).port(), 7080);
}
